"""A small drafter of every kind for toy models, and one program that runs any of them."""

import jax
import jax.numpy as jnp
import numpy as np
import toy
from flax import struct
from jax import lax

import specdec_jax as sd


def power_heads(params, state, history, position, gamma):
  """Head i: the distribution i + 1 steps of a Markov chain after the last token. params: chains float32 [V, V]."""
  del state
  last = jnp.take_along_axis(history, position[:, None], axis=1)[:, 0]
  distributions, at = [], jax.nn.one_hot(last, params.shape[0])
  for _ in range(gamma):
    at = at @ params
    distributions.append(at)
  return jnp.log(jnp.stack(distributions, axis=1))


def texts(seed: int, vocab_size: int, count: int = 200) -> list[list[int]]:
  """Texts of a random chain, each up to its EOS."""
  rng = np.random.default_rng(seed)
  chain = rng.dirichlet(np.full(vocab_size, 0.7), size=vocab_size)
  made = []
  for _ in range(count):
    text = [int(rng.choice(vocab_size, p=chain[0]))]
    while text[-1] != toy.EOS and len(text) < 12:
      text.append(int(rng.choice(vocab_size, p=chain[text[-1]])))
    made.append(text)
  return made


def make(seed: int, vocab_size: int = 4) -> dict:
  """Drafters by name; their shapes are the same for every seed."""
  rng = np.random.default_rng(seed)
  fit = lambda **options: sd.NGramDrafter.fit(texts(seed, vocab_size), num_tokens=vocab_size, **options)
  bigram = fit(successors=2)
  assert bigram.successors.shape == (vocab_size, 2)
  return {
      'unigram': fit(order=1),
      'bigram': bigram,
      'lookup': sd.LookupDrafter(),
      'lookup in the input': sd.LookupDrafter(source='input', max_match=2),
      'lookup in the output': sd.LookupDrafter(source='output', max_match=1),
      'random': sd.RandomDrafter(),
      'parallel': sd.ParallelDrafter(
          power_heads, jnp.asarray(rng.dirichlet(np.ones(vocab_size), size=vocab_size), jnp.float32)),
      'model': sd.ModelDrafter(toy.random_toy(seed + 100, vocab_size)),
  }


class Switched(struct.PyTreeNode):
  """One of several drafters, by number, so that one compiled program tests them all."""

  drafters: tuple
  which: jax.Array

  name = 'switched'

  def check(self, target):
    for drafter in self.drafters:
      drafter.check(target)

  def prefill(self, request, cache_length):
    return tuple(d.prefill(request, cache_length) for d in self.drafters)

  def propose(self, states, text, tree, keys, standardizer):
    def branch(i):
      def run(states):
        proposal, state = self.drafters[i].propose(states[i], text, tree, keys, standardizer)
        q = proposal.q  # the branches of a switch have one type
        if q is None and not standardizer.certain:
          assert tree.is_chain, 'certain proposals of a tree have no q'
          q = jax.nn.one_hot(proposal.tokens, standardizer.num_rows, dtype=jnp.float32)
        elif standardizer.certain:
          q = None
        return proposal.replace(q=q), (*states[:i], state, *states[i + 1:])
      return run

    return lax.switch(self.which, [branch(i) for i in range(len(self.drafters))], states)

  def distributions(self, request, history, prefix_end, standardizer):
    branches = [lambda d=d: d.distributions(request, history, prefix_end, standardizer) for d in self.drafters]
    return lax.switch(self.which, branches)


def switched(drafters: dict, name: str) -> Switched:
  return Switched(tuple(drafters.values()), jnp.int32(list(drafters).index(name)))
