"""A tiny pair as T5X's own models. Where T5X cannot be imported these tests are skipped, in one line each file."""

import functools

import numpy as np
import pytest
import tiny

SIZES = dict(num_buckets=32, max_distance=128)  # T5X's network has no others
INPUTS, LENGTH = 7, 9


@pytest.fixture(scope='session')
def weights():
  """The target, and a draft that agrees with it now and then."""
  target = tiny.random_t5(1, num_pieces=0, num_decoder_layers=2, **SIZES)
  return target, tiny.random_t5(2, num_pieces=0, **SIZES)


@pytest.fixture(scope='session')
def module():
  """module(model) -> T5X's network of its sizes."""
  from t5x.examples.t5 import network

  from specdec_jax.checkpoints.t5x.fields import to_t5x
  return lambda model: network.Transformer(network.T5Config(**to_t5x(model.config)))


@pytest.fixture(scope='session')
def plain(weights, module):
  """plain(settings of temperature_sample) -> T5X's own model of the target."""
  import seqio
  from t5x import decoding, models
  vocabulary = seqio.PassThroughVocabulary(tiny.ROWS, eos_id=1)
  return lambda **settings: models.EncoderDecoderModel(
      module(weights[0]), vocabulary, vocabulary, optimizer_def=None,
      decode_fn=functools.partial(decoding.temperature_sample, **settings))


@pytest.fixture(scope='session')
def speculative(weights, module, plain):
  """speculative(options of SpeculativeModel, settings of temperature_sample)."""
  from specdec_jax.integrations import t5x as integration
  draft = integration.Draft('nowhere', module=module(weights[1]))
  return lambda options=None, **settings: integration.SpeculativeModel(
      plain(**settings), draft, **(options or {'gamma': 3}))


@pytest.fixture(scope='session')
def batch():
  return {'encoder_input_tokens': tiny.inputs(5, INPUTS), 'decoder_input_tokens': np.zeros((5, LENGTH), np.int32)}
