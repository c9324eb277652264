"""A draft that is drafted for says what it would say alone, in fewer passes; its own standardisation is q."""

import families
import jax
import numpy as np
import pytest
import tiny

import specdec_jax as sd
from specdec_jax.drafters.interface import Text
from specdec_jax.errors import SettingError
from specdec_jax.standardizer import Standardizer
from specdec_jax.tree import Tree

GREEDY, LENGTH = sd.Sampling(temperature=0), 12
PAIRS = {'t5': (tiny.random_t5(0, num_decoder_layers=2), tiny.random_t5(1)),
         'gpt2': tuple(families.random_gpt2(seed, num_layers=2 - seed, max_positions=40) for seed in (0, 1))}


@pytest.mark.parametrize('name, inner', [
    ('t5', 'itself'), *[pytest.param(*case, marks=pytest.mark.long) for case in [
        ('gpt2', 'lookup'), ('t5', 'lookup'), ('gpt2', 'itself')]]])
def test_at_temperature_0_the_draft_is_the_same_one(name, inner):
  """Token by token over whole decodes, so each entry of its cache is right, whatever was accepted at either level."""
  target, draft = PAIRS[name]
  given = {'tokens': tiny.inputs(4)} if name == 't5' else {
      'tokens': np.random.default_rng(0).integers(2, 20, (4, 6)), 'lengths': np.array([6, 1, 3, 5])}
  drafter = sd.ModelDrafter(draft, drafter=sd.ModelDrafter(draft) if inner == 'itself' else sd.LookupDrafter(),
                            inner_gamma=2)
  options = dict(gamma=5, sampling=GREEDY, max_decode_len=LENGTH, trace=True, **given)
  ours, theirs = (sd.speculative_decode(target, d, **options) for d in (drafter, draft))
  jax.tree.map(np.testing.assert_array_equal, ours.trace, theirs.trace)
  np.testing.assert_array_equal(ours.tokens, theirs.tokens)


def test_its_own_sampling_is_q():
  target, draft = PAIRS['t5']
  own, theirs = sd.Sampling(temperature=0.5, top_k=3), sd.Sampling(temperature=1.0)
  standardizer = Standardizer.of_target(target, theirs)
  request = sd.decoding.inputs.unplaced_request(target, tiny.inputs(2), None)
  text = Text(history=np.zeros((2, 8), np.int32), position=np.zeros(2, np.int32), prefix_end=np.zeros(2, np.int32))
  keys = jax.random.split(jax.random.key(0), 2)

  @jax.jit
  def propose(drafter, standardizer):
    return drafter.propose(drafter.prefill(request, 8), text, Tree.chain(2), keys, standardizer)[0]

  found = propose(sd.ModelDrafter(draft, sampling=own), standardizer)
  expected = propose(sd.ModelDrafter(draft), Standardizer.of_target(target, own))
  np.testing.assert_array_equal(found.tokens, expected.tokens)
  np.testing.assert_allclose(found.q, expected.q, atol=1e-6)
  assert ((found.q > 0).sum(-1) <= 3).all()
  certain = propose(sd.ModelDrafter(draft, sampling=GREEDY), standardizer)
  assert (certain.q.max(-1) == 1).all()


def test_what_does_not_go_together_is_refused():
  target, draft = PAIRS['t5']
  decode = lambda **options: sd.speculative_decode(target, sd.ModelDrafter(draft, **options), tiny.inputs(1),
                                                   tree=sd.Tree((-1, -1)), max_decode_len=2)
  with pytest.raises(SettingError, match='drafts chains; take gamma, or leave ModelDrafter.drafter out'):
    decode(drafter=sd.LookupDrafter())
  with pytest.raises(SettingError, match='which reads the hidden states of a target'):
    decode(drafter=sd.ParallelHeadsDrafter({}, sd.HeadsConfig(kind='parallel', width=4)))
  with pytest.raises(SettingError, match='ModelDrafter.inner_gamma is 0'):
    decode(inner_gamma=0)
  with pytest.raises(SettingError, match='beams are the draft'):
    sd.beam_search(target, tiny.inputs(1), drafter=sd.ModelDrafter(draft, sampling=GREEDY), num_beams=2)
