"""Heads on real networks: the target's own texts, with each cache entry and hidden state where it belongs."""

import every_drafter
import families
import jax
import jax.numpy as jnp
import loops
import numpy as np
import pytest
import tiny
from refilled import drain

import specdec_jax as sd
from specdec_jax.analysis.alpha import text_betas, token_betas
from specdec_jax.decoding import decode_loop, running_decode
from specdec_jax.errors import CheckpointError, SettingError
from specdec_jax.training.batches import Batches
from specdec_jax.training.heads import HeadsLoss
from specdec_jax.training.optimizer import optimizer
from specdec_jax.training.trainer import train

GREEDY, LENGTH = sd.Sampling(temperature=0), 14
T5, GPT2 = tiny.random_t5(0, num_decoder_layers=2), families.random_gpt2(0, num_layers=2, max_positions=40)
TREE = sd.Tree((-1, -1, 0, 0, 2))
PROMPTS = {'tokens': np.random.default_rng(0).integers(2, 20, (4, 6)), 'lengths': np.array([6, 1, 3, 5])}


def heads_of(kind, target, **changes):
  encoded = not target.config.decoder_only
  return every_drafter.random_heads(kind, 3, 16, target.config.vocab_size, encoded=encoded, **changes)


def inputs_of(target):
  return PROMPTS if target.config.decoder_only else {'tokens': tiny.inputs(4)}


LONG = pytest.mark.long
CASES = [pytest.param(T5, 'layer', id='t5-layer'), pytest.param(GPT2, 'layer', id='gpt2-layer', marks=LONG),
         pytest.param(T5, 'parallel', id='t5-parallel'),
         pytest.param(GPT2, 'parallel', id='gpt2-parallel', marks=LONG)]


def test_a_program_is_handed_the_target_s_weights_once():
  """They are the target's arguments, and heads take them within the program."""
  positional, settings = loops.arguments(T5, heads_of('layer', T5), tiny.inputs(2), gamma=2, max_decode_len=4)
  leaves = jax.tree.leaves(decode_loop.lower(*positional, settings).args_info)
  size = lambda x: int(np.prod(x.shape))
  kernels = [x for model in (T5, heads_of('layer', T5)) for x in jax.tree.leaves(model.params) if x.ndim == 2]
  assert sum(size(x) for x in leaves if len(x.shape) == 2 and x.dtype == jnp.float32) == sum(map(size, kernels))


@pytest.mark.parametrize('target, kind', CASES)
def test_greedy_text_and_the_first_token_of_every_draft(target, kind):
  """The text is the target's own, and each draft begins as the teacher-forced distributions say: a missing or stale
  hidden state or cache entry would draft another token."""
  drafter, given = heads_of(kind, target), inputs_of(target)
  options = dict(sampling=GREEDY, max_decode_len=LENGTH)
  base = sd.autoregressive_decode(target, **given, **options)
  r = sd.speculative_decode(target, drafter, **given, gamma=3, **options, trace=True)
  np.testing.assert_array_equal(r.tokens, base.tokens)
  np.testing.assert_allclose(r.scores, base.scores, atol=1e-3)
  betas = token_betas(target, drafter, given['tokens'], r.tokens, r.lengths, GREEDY,
                      prompt_lengths=given.get('lengths'))
  for row in range(len(r.tokens)):
    at = 0
    for i in range(r.stats.target_calls[row]):
      assert (r.trace.drafts[row, i, 0] == r.tokens[row, at]) == (betas[row, at] == 1), (row, at)
      at += r.trace.emitted[row, i]
    assert at == r.lengths[row]


@pytest.mark.parametrize('target, kind', [CASES[0], pytest.param(GPT2, 'layer', id='gpt2-layer', marks=LONG)])
def test_trees_say_the_targets_own_text(target, kind):
  options = dict(sampling=GREEDY, max_decode_len=LENGTH)
  base = sd.autoregressive_decode(target, **inputs_of(target), **options)
  r = sd.speculative_decode(target, heads_of(kind, target), tree=TREE, **inputs_of(target), **options)
  np.testing.assert_array_equal(r.tokens, base.tokens)


@LONG
@pytest.mark.parametrize('kind', ['parallel', 'layer'])
def test_rows_that_are_filled_again_and_several_samples(kind):
  tokens, ids = tiny.inputs(7), np.arange(7)
  drafter = heads_of(kind, T5)
  together = sd.speculative_decode(T5, drafter, tokens, gamma=2, max_decode_len=8, ids=ids, buckets=())
  loop = running_decode(T5, drafter, rows=3, length=7, gamma=2, max_decode_len=8)
  found = drain(loop, tokens, ids)
  np.testing.assert_array_equal(found.tokens, together.tokens)
  np.testing.assert_array_equal(found.stats.target_calls, together.stats.target_calls)
  several = sd.speculative_decode(T5, drafter, tokens, gamma=2, max_decode_len=8, ids=ids, buckets=(), num_samples=2)
  np.testing.assert_array_equal(several.tokens[::2], together.tokens)


@pytest.mark.parametrize('kind', ['layer', pytest.param('parallel', marks=LONG)])
def test_a_given_prefix_is_read(kind):
  """The layer's cache and the first hidden states come from the pass over what is given."""
  drafter, tokens = heads_of(kind, T5), tiny.inputs(3)
  options = dict(sampling=GREEDY, max_decode_len=6, gamma=2, trace=True)
  whole = sd.speculative_decode(T5, drafter, tokens, **options)
  cut = np.minimum(whole.trace.emitted[:, 0], whole.lengths - 1)  # the tokens of the first iteration
  r = sd.speculative_decode(T5, drafter, tokens, **options, target_prefix=whole.tokens, target_prefix_lengths=cut)
  for row in range(3):
    if whole.stats.target_calls[row] > 1:
      np.testing.assert_array_equal(r.trace.drafts[row, 0], whole.trace.drafts[row, 1])
  assert (whole.stats.target_calls > 1).any()


@pytest.mark.parametrize('kind', [pytest.param('layer', marks=LONG), 'parallel'])
def test_training_raises_alpha_and_what_is_saved_is_read(kind, tmp_path):
  drafter, tokens = heads_of(kind, T5), tiny.inputs(32)
  text = sd.autoregressive_decode(T5, tokens, max_decode_len=8, seed=1)
  pairs = [(s[s > 0].tolist(), t[:n].tolist()) for s, t, n in zip(tokens, text.tokens, text.lengths)]
  batches = Batches(pairs, tokens_per_batch=256, buckets=(8,))
  alpha = lambda d: text_betas(T5, d, tokens, text.tokens, text.lengths, sd.Sampling(), 32).sum() / text.lengths.sum()
  loss = HeadsLoss(drafter.config, 'kl', unroll=2)
  steps = 25 if kind == 'layer' else 80  # eight heads share what they learn from
  params = train(loss, batches, batches, str(tmp_path / 'run'), steps=steps, optimizer=optimizer(
      steps, schedule=lambda steps: 3e-2), init_params=drafter.params, teacher=T5, eval_every=100)
  trained = drafter.replace(params=params)
  assert alpha(trained) > alpha(drafter) + 0.1
  total, count = loss.validation(params, next(batches.once()), T5)
  np.testing.assert_allclose(1 - total / count, alpha(trained), atol=0.01)  # a 0 at a text's end is no label
  sd.save_heads(trained, tmp_path / 'heads')
  again = sd.load_heads(tmp_path / 'heads')
  assert again.config == trained.config and type(again) is type(trained)
  jax.tree.map(np.testing.assert_array_equal, again.params, params)
  sd.save_heads(trained, tmp_path / 'heads', storage='int8', overwrite=True)
  assert abs(alpha(sd.load_heads(tmp_path / 'heads')) - alpha(trained)) < 0.05


def test_what_does_not_fit_is_refused(tmp_path):
  decode = lambda target, drafter, gamma=2: sd.speculative_decode(
      target, drafter, **inputs_of(target), gamma=gamma, max_decode_len=4)
  with pytest.raises(SettingError, match='are of a target with hidden states of width 8, this one has 16'):
    decode(T5, every_drafter.random_heads('layer', 0, 8, 24))
  with pytest.raises(SettingError, match='are of a target with logits 23, this one has 24'):
    decode(T5, every_drafter.random_heads('layer', 0, 16, 23))
  with pytest.raises(SettingError, match='are of a target with an encoder, and this one is not'):
    decode(GPT2, every_drafter.random_heads('layer', 0, 16, 20))
  with pytest.raises(SettingError, match='9 tokens deep, and the heads are 8; take gamma = 8 at most'):
    decode(T5, heads_of('parallel', T5), gamma=9)
  with pytest.raises(SettingError, match="HeadsConfig.kind is 'tree'"):
    sd.HeadsConfig(kind='tree', width=4)
  with pytest.raises(CheckpointError, match='No heads at'):
    sd.load_heads(tmp_path)
  sd.save_heads(heads_of('parallel', T5), tmp_path / 'heads')
  text = (tmp_path / 'heads' / 'heads.json').read_text()
  (tmp_path / 'heads' / 'heads.json').write_text(text.replace('"width": 4', '"width": 5'))
  with pytest.raises(CheckpointError, match=r'heads.json'):
    sd.load_heads(tmp_path / 'heads')


def test_operations_count_the_vocabulary_product():
  layer, parallel = heads_of('layer', T5), heads_of('parallel', T5)
  matrices = lambda drafter: sum(x.size for x in jax.tree.leaves(drafter.params) if jnp.ndim(x) == 2)
  assert layer.operations == matrices(layer) + 16 * 24
  assert parallel.operations == matrices(parallel) / 8 + 16 * 24
