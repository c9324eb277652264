"""The method in plain Python and float64, written from the paper: what the project is tested against."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.sampling import Sampling


def standardise(logits, sampling: Sampling) -> np.ndarray:
  """Temperature, then top-k, then top-p [§2.2]: logits [V] -> float64 [V]."""
  logits = np.asarray(logits, np.float64)
  tokens = range(len(logits))
  if sampling.temperature == 0:
    best = max(tokens, key=lambda x: (logits[x], -x))
    return np.array([float(x == best) for x in tokens])
  logits = logits / sampling.temperature
  if sampling.top_k:
    kth = sorted(logits, reverse=True)[:sampling.top_k][-1]
    logits = np.where(logits >= kth, logits, -np.inf)
  p = np.exp(logits - logits.max())
  p /= p.sum()
  if sampling.top_p < 1:
    kept, mass = [], 0.0
    for x in sorted(tokens, key=lambda x: (-p[x], x)):
      if mass >= sampling.top_p:
        break
      kept.append(x)
      mass += p[x]
    p = np.array([p[x] if x in kept else 0.0 for x in tokens])
    p /= p.sum()
  return p


def verify(p, q, draft, u, lenience=1.0):
  """Algorithm 1's rule: number accepted and the distribution of the next token."""
  n = 0
  while n < len(draft) and u[n] * lenience * q[n][draft[n]] < p[n][draft[n]]:
    n += 1
  if n == len(draft):
    return n, p[n]
  excess = [max(0.0, a - b) for a, b in zip(p[n], q[n])]
  return n, np.array(excess) / sum(excess) if sum(excess) > 0 else p[n]


def verify_greedy(logits, draft, lenience=1.0):
  """The rule at temperature 0: number accepted and the next token; lenient by p before the argmax."""
  n = 0
  while n < len(draft):
    p = standardise(logits[n], Sampling())
    first = int(np.argmax(logits[n]))
    lenient = lenience < 1 and p[draft[n]] >= lenience * max(p) and p[draft[n]] > 0
    if draft[n] != first and not lenient:
      break
    n += 1
  return n, int(np.argmax(logits[n]))


def next_distribution(toy, source, tokens, sampling, processors=()):
  """The standardised distribution after decoder tokens, the start token first."""
  logits = toy.next_logits(source, tokens)
  logits = np.where(np.arange(len(logits)) < toy.num_tokens, logits, -np.inf)
  for processor in processors:
    logits = processor(logits, list(tokens))
  return standardise(logits, sampling)


def text_distribution(toy, source, length, sampling, processors=(), given=None) -> dict[tuple[int, ...], float]:
  """The probability of every text behind `given` or the start token: up to EOS, or `length` tokens."""
  given = (toy.config.decoder_start_id,) if given is None else given
  distribution, open_texts = {}, {(): 1.0}
  for _ in range(length):
    longer = {}
    for text, mass in open_texts.items():
      for x, p in enumerate(next_distribution(toy, source, (*given, *text), sampling, processors)):
        if p > 0:
          (distribution if x == toy.eos_id else longer)[(*text, x)] = mass * p
    open_texts = longer
  return distribution | open_texts


@dataclasses.dataclass
class Decoded:
  """One row of a decode."""

  tokens: list[int]
  target_calls: int
  drafted: int
  accepted: int
  accepted_by_position: list[int]
  drafted_by_position: list[int]


def decode(target, draft, source, *, gamma, sampling, length, seed=0, row_id=0,
           lenience=1.0) -> Decoded:
  """Algorithm 1 for one row, without caches; a block may run past the end and is cut later.

  Random numbers: a row's key from seed and id, an iteration's from the place of
  the last token before it, one half of that for the draft and one for the rule.
  """
  row_key = jax.random.fold_in(jax.random.key(seed), row_id)
  text, blocks = [target.config.decoder_start_id], []
  while len(text) <= length and target.eos_id not in text[1:]:
    at = len(text) - 1
    draft_key, rule_key = jax.random.split(jax.random.fold_in(row_key, at))
    drafted, q = [], []
    for i in range(gamma):
      q.append(next_distribution(draft, source, text + drafted, sampling))
      drafted.append(_draw(q[-1], jax.random.fold_in(draft_key, i)))
    p = [next_distribution(target, source, text + drafted[:i], sampling) for i in range(gamma + 1)]
    u_key, next_key = jax.random.split(rule_key)
    u = np.asarray(jax.random.uniform(u_key, (gamma,)), np.float64)
    n, distribution = verify(p, q, drafted, u, lenience)
    new = drafted[:n] + [_draw(distribution, next_key)]
    ended = at + new.index(target.eos_id) + 1 if target.eos_id in new else length
    blocks.append((at, n, min(length, ended)))
    text += new
  text = text[1:]
  end = min(length, text.index(target.eos_id) + 1 if target.eos_id in text else length)
  # Token i of a block's draft stands, or would have stood, at place at + i of the text.
  accepted = [sum(i < n and at + i < last for at, n, last in blocks) for i in range(gamma)]
  drafted = [sum(at + i < last for at, _, last in blocks) for i in range(gamma)]
  return Decoded(tokens=text[:end], target_calls=len(blocks), accepted=sum(accepted), drafted=sum(drafted),
                 accepted_by_position=accepted, drafted_by_position=drafted)


def _draw(distribution, key) -> int:
  return int(jax.random.categorical(key, jnp.log(jnp.asarray(distribution, jnp.float32))))


def verify_tree(p, q, tokens, tree, u):
  """The rule of a tree in plain Python: the accepted nodes and the distribution of the next token.

  p [M + 1][V]; q [P][V], of the nodes with children in the order of `Tree.expanded`, or None; u [M]. Works on
  fractions as on floats.
  """
  row = {int(node): i for i, node in enumerate(n for level in tree.expanded for n in level)}
  node, path, here = -1, [], list(p[0])
  while True:
    left = None if q is None or node not in row else list(q[row[node]])
    for child in (int(c) for c in tree.children[node + 1] if c >= 0):
      x = tokens[child]
      if x < 0:
        return path, here
      proposed = [int(y == x) for y in range(len(here))] if q is None else [y / sum(left) for y in left]
      if u[child] * proposed[x] < here[x]:
        node, here = child, list(p[child + 1])
        path.append(child)
        break
      excess = [max(a - b, 0) for a, b in zip(here, proposed)]
      here = [e / sum(excess) for e in excess] if sum(excess) > 0 else here
      if left is not None:
        left[x] = 0
    else:
      return path, here


def ranks_accepted(p, q, count):
  """Probability that the k-th of `count` children, sampled from q without replacement, is the accepted one.

  And the distribution of what comes out, by going through every order of children: exact on fractions.
  """
  accepted, out = [0] * count, [0] * len(p)

  def walk(here, left, rank, mass):
    if rank == count or not any(left):
      for x, px in enumerate(here):
        out[x] += mass * px
      return
    total = sum(left)
    for x, qx in enumerate(left):
      if not qx:
        continue
      proposed = [y / total for y in left]
      keep = min(1, here[x] / proposed[x])
      accepted[rank] += mass * proposed[x] * keep
      out[x] += mass * proposed[x] * keep
      if keep < 1:
        excess = [max(a - b, 0) for a, b in zip(here, proposed)]
        walk([e / sum(excess) for e in excess], [0 if y == x else v for y, v in enumerate(left)], rank + 1,
             mass * proposed[x] * (1 - keep))

  walk(list(p), list(q), 0, 1)
  return accepted, out


def verify_block(p, q, draft, eta):
  """Block verification in plain Python (arXiv 2403.10444, algorithm 2): number accepted and the next distribution."""
  gamma, w, accepted = len(draft), [1.0], 0
  for i, x in enumerate(draft):
    w.append(min(1.0, w[-1] * p[i][x] / q[i][x]))
  for i in range(1, gamma + 1):
    if i == gamma:
      h = w[i]
    else:
      over = sum(max(w[i] * a - b, 0.0) for a, b in zip(p[i], q[i]))
      h = 1.0 if over + 1 - w[i] == 0 else over / (over + 1 - w[i])
    if eta[i - 1] < h:
      accepted = i
  if accepted == gamma:
    return accepted, list(p[gamma])
  excess = [max(w[accepted] * a - b, 0.0) for a, b in zip(p[accepted], q[accepted])]
  return accepted, [e / sum(excess) for e in excess] if sum(excess) > 0 else list(p[accepted])
