"""A small drafter of every kind for toy models, and one program that runs any of them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import toy
from flax import struct
from jax import lax

import specdec_jax as sd
from specdec_jax.drafters.heads import KINDS
from specdec_jax.drafters.interface import for_target
from specdec_jax.models import heads
from specdec_jax.models.heads import HeadsConfig


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


@functools.cache
def head_shapes(config: HeadsConfig):
  return jax.eval_shape(lambda: heads.initial(config, jax.random.key(0)))


def random_heads(kind: str, seed: int, hidden_dim: int, vocab_size: int, **changes):
  """Heads with normal weights for a target of these sizes, up to 8 tokens a draft."""
  config = HeadsConfig(**{'kind': kind, 'hidden_dim': hidden_dim, 'vocab_size': vocab_size, 'width': 4, 'count': 8,
                          'num_heads': 1, 'head_dim': 4, 'mlp_dim': 4, **changes})
  rng = np.random.default_rng(seed)
  params = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape) * 0.5, jnp.float32), head_shapes(config))
  return KINDS[kind](params, config)


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
      'heads': random_heads('parallel', seed, vocab_size, vocab_size),
      'layer': random_heads('layer', seed, vocab_size, vocab_size),
      'model': sd.ModelDrafter(toy.random_toy(seed + 100, vocab_size)),
      'drafted model': sd.ModelDrafter(toy.random_toy(seed + 100, vocab_size), drafter=bigram, inner_gamma=2),
      'sharper model': sd.ModelDrafter(toy.random_toy(seed + 100, vocab_size),
                                       sampling=sd.Sampling(temperature=0.6, top_k=3)),
  }


class Switched(struct.PyTreeNode):
  """One of several drafters, by number, so that one compiled program tests them all."""

  drafters: tuple
  which: jax.Array

  name = 'switched'
  wants_hidden = True

  def check(self, target):
    for drafter in self.drafters:
      drafter.check(target)

  def for_target(self, target):
    return self.replace(drafters=tuple(for_target(drafter, target) for drafter in self.drafters))

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
