"""How often each of a draft's candidates is the accepted one, teacher-forced over the target's own texts.

What `theory.best_tree` needs to know of a pair, without a tree decode; and what a tree should make of it: the
walk along the texts that a decoder with that tree would take.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from specdec_jax import checks, compilation, rule
from specdec_jax.analysis.alpha import after_prefix, as_drafter, history_of
from specdec_jax.decoding import autoregressive_decode, inputs
from specdec_jax.drafters.chain import distributions_along
from specdec_jax.drafters.interface import Request, for_target
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.model import Model
from specdec_jax.sampling import Sampling, largest, sample_several
from specdec_jax.standardizer import Standardizer
from specdec_jax.tree import Tree


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranks:
  """Which candidate was accepted at each place of some texts.

  Attributes:
    by_place: int [N, L], the rank of the accepted candidate, from 0; `most` where none of so many was.
    lengths: int [N], tokens of each text, EOS counted.
    most: how many candidates were tried.
  """

  by_place: np.ndarray
  lengths: np.ndarray
  most: int

  @property
  def acceptance(self) -> tuple[float, ...]:
    """For `theory.best_tree`: the probability that the k-th candidate is the accepted one."""
    counts = np.bincount(self._of_texts(), minlength=self.most + 1)[:self.most]
    return tuple((counts / max(int(self.lengths.sum()), 1)).tolist())

  def tokens_per_call(self, tree: Tree) -> float:
    """Walks along each text as a decoder with this tree would: tokens over target calls, ends included."""
    calls = 0
    for ranks, length in zip(self.by_place, self.lengths.tolist()):
      at = 0
      while at < length:
        calls += 1
        node = -1
        while at < length:
          rank = int(ranks[at])
          node = int(tree.children[node + 1][rank]) if rank < tree.max_children else -1
          at += 1  # the accepted candidate, or else the target's own token
          if node < 0:
            break
    return float(self.lengths.sum() / max(calls, 1))

  def _of_texts(self) -> np.ndarray:
    return self.by_place[np.arange(self.by_place.shape[1]) < self.lengths[:, None]]


def ranks(target: Model, draft: Any, tokens: Any, sampling: Sampling = Sampling(), *, most: int = 16, seed: int = 0,
          max_decode_len: int = 128, batch_size: int = 8, lengths: Any = None) -> Ranks:
  """Measures a drafter on the target's own texts for `tokens`, one text an input.

  At temperature 0 the target's choice has a rank among the draft's candidates; above it the rule is run at
  every place with `most` candidates sampled without replacement.

  Args:
    target, tokens, sampling, seed, max_decode_len, lengths: as in `speculative_decode`.
    draft: a drafter whose distributions are known along a text, or a `Model`.
    most: candidates of a place.
    batch_size: rows of a device call.
  """
  most, batch_size = checks.whole('most', most, 1), checks.whole('batch_size', batch_size, 1)
  target, sampling = inputs.checked_target(target), inputs.checked_sampling(sampling)
  drafter = inputs.checked_drafter(draft, target)
  tokens = target.check_tokens(tokens)
  of_prompts = target.check_lengths(tokens, lengths, max_decode_len)
  texts, text_lengths = [], []
  for members, real in _batches(len(tokens), batch_size):
    prompts = None if of_prompts is None else of_prompts[members]
    result = autoregressive_decode(target, tokens[members], sampling=sampling, seed=seed, ids=members,
                                   max_decode_len=max_decode_len, lengths=prompts, buckets=())
    texts.append(result.tokens[:real])
    text_lengths.append(result.lengths[:real])
  return of_texts(target, drafter, tokens, np.concatenate(texts), np.concatenate(text_lengths), sampling, most=most,
                  seed=seed, batch_size=batch_size, prompt_lengths=of_prompts)


def of_texts(target: Model, draft: Any, tokens, text, lengths, sampling: Sampling = Sampling(), *, most: int = 16,
             seed: int = 0, batch_size: int = 8, prompt_lengths: Any = None,
             logits_processors: Sequence[Callable] = (), done: Callable[[int], object] = lambda tokens: None) -> Ranks:
  """The same over texts that the target has generated before.

  Args:
    target, sampling, seed, logits_processors: as in `speculative_decode`.
    draft, most, batch_size: as in `ranks`.
    tokens: int32 [B, S], encoder tokens or prompts.
    text: int32 [B, L], what was generated.
    lengths: int [B], tokens of each text, EOS counted.
    prompt_lengths: int32 [B], of a decoder-only model's prompts.
    done: called with the tokens that each device call has done.
  """
  standardizer = Standardizer.of_target(target, sampling, tuple(logits_processors))
  drafter, tokens, text, lengths = as_drafter(draft), np.asarray(tokens), np.asarray(text), np.asarray(lengths)
  found = []
  for members, real in _batches(len(tokens), batch_size):
    prompts = None if prompt_lengths is None else np.asarray(prompt_lengths)[members]
    request = inputs.unplaced_request(target, tokens[members], prompts)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(seed), members)
    found.append(np.asarray(_of_texts(target, drafter, request, text[members], standardizer, keys, most))[:real])
    done(int(lengths[members[:real]].sum()))
  return Ranks(by_place=np.concatenate(found), lengths=lengths, most=most)


def joined(parts: Sequence[Ranks]) -> Ranks:
  """Those of several groups of texts as one."""
  longest = max(part.by_place.shape[1] for part in parts)
  most, = {part.most for part in parts}
  padded = [np.pad(part.by_place, ((0, 0), (0, longest - part.by_place.shape[1]))) for part in parts]
  return Ranks(by_place=np.concatenate(padded), lengths=np.concatenate([part.lengths for part in parts]), most=most)


def _batches(rows: int, batch_size: int) -> Iterator[tuple[np.ndarray, int]]:
  """The rows of each device call, the last one repeated where there are none left, and how many count."""
  for start in range(0, rows, batch_size):
    yield np.minimum(np.arange(start, start + batch_size), rows - 1), min(batch_size, rows - start)


def _rank_in_order(p, q, most: int):
  """At temperature 0: the place of the one token of p among the most probable of q; ties go to the lower id."""
  order = largest(q, most)
  there = order == jnp.argmax(p)
  return jnp.where(there.any(), jnp.argmax(there), most)


def _rank_by_rule(p, q, key, most: int):
  """The rule at one node with `most` children, of which one is accepted or none."""
  star = Tree((-1,) * most)
  tokens_key, rule_key = jax.random.split(jax.random.fold_in(key, 2))  # 0 and 1 a decode of this seed has used
  tokens = sample_several(q, tokens_key, most)
  rows = jnp.broadcast_to(p, (most + 1, len(p)))
  path, count, _ = rule.verify_tree(rows, q[None], tokens, star, rule_key)
  return jnp.where(count > 0, path[0], most)


@functools.partial(compilation.jit, static_argnames='most')
def _of_texts(target, drafter, request: Request, text, standardizer: Standardizer, keys, most: int):
  """int32 [B, T]: a run of both models over the texts, then the rule place by place; a key for each text."""
  history, prefix_end = history_of(target, request, text)
  logits = ModelDrafter(target).logits(request.tokens, history)
  p = distributions_along(standardizer, logits, history, prefix_end)
  soft = standardizer
  if standardizer.certain:  # the order of candidates is that of the logits
    soft = standardizer.replace(greedy=False, temperature=jnp.float32(1), top_k=0, top_p=False)
  q = for_target(drafter, target).distributions(request, history, prefix_end, soft)
  p, q = (after_prefix(prefix_end, x, text.shape[1]) for x in (p, q))
  keys = jax.vmap(lambda key: jax.random.split(key, text.shape[1]))(keys)

  def place(at):
    p, q, keys = at
    if standardizer.certain:
      return jax.vmap(lambda p, q: _rank_in_order(p, q, most))(p, q)
    return jax.vmap(lambda p, q, key: _rank_by_rule(p, q, key, most))(p, q, keys)

  by_place = lax.map(place, (p.swapaxes(0, 1), q.swapaxes(0, 1), keys.swapaxes(0, 1)))
  return by_place.T.astype(jnp.int32)
