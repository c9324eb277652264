"""Bad input gets one clear line that names the thing; nothing is compiled before it is found."""

import jax
import numpy as np
import pytest
import toy

import specdec_jax as sd
from specdec_jax.decoding import decode_loop as PROGRAM, entry

TARGET, TOKENS = toy.random_toy(0), toy.sources(3)
DRAFTER = sd.ModelDrafter(toy.random_toy(1))


@pytest.fixture(autouse=True)
def no_compilation(monkeypatch):
  def refuse(*unused, **also_unused):
    raise AssertionError('bad input reached the compiled loop')

  monkeypatch.setattr(entry, 'decode_loop', refuse)


@pytest.mark.parametrize('options, message', [
    ({'gamma': 0}, r'gamma is 0; it must be a whole number from 1 to 1024 \(autoregressive_decode'),
    ({'gamma': -3}, 'gamma is -3;'),
    ({'gamma': 2.5}, 'gamma is 2.5;'),
    ({'max_decode_len': 0}, 'max_decode_len is 0; it must be a whole number from 1 to 1048576'),
    ({'max_decode_len': 3.5}, 'max_decode_len is 3.5;'),
    ({'lenience': 1.1}, r'lenience is 1.1; it must be a number in \[0, 1\]'),
    ({'lenience': -0.1}, 'lenience is -0.1;'),
    ({'seed': -1}, 'seed is -1; it must be a whole number from 0 to 4294967295'),
    ({'seed': 2**32}, 'seed is 4294967296;'),
    ({'seed': 0.5}, 'seed is 0.5;'),
    ({'ids': [0, 1]}, r'ids must be integers of shape \[3\], one a row of tokens, not int64 of shape \[2\]'),
    ({'ids': [[0], [1], [2]]}, r'ids must be integers of shape \[3\]'),
    ({'ids': [0.0, 1.0, 2.0]}, r'ids must be integers of shape \[3\], one a row of tokens, not float64'),
    ({'ids': [0, -1, 2]}, 'ids go from -1 to 2; they must be 0 to 4294967295'),
    ({'ids': [0, 1, 2**32]}, 'ids go from 0 to 4294967296;'),
    ({'tokens': np.zeros((0, 4), int)}, r'tokens is empty \(shape \[0, 4\]\); give at least one row'),
    ({'tokens': np.zeros((3, 0), int)}, r'tokens is empty \(shape \[3, 0\]\)'),
    ({'tokens': []}, r'tokens must be integers of shape \[batch, length\]'),
    ({'tokens': [[1, 2], [3], [1, 2]]}, 'tokens has rows of unequal lengths; pad them on the right'),
    ({'tokens': [1, 2, 3]}, r'tokens must be integers of shape \[batch, length\], not int64 of shape \[3\]'),
    ({'tokens': [[1.0], [2.0], [3.0]]}, 'tokens must be integers .* not float64'),
    ({'tokens': [[1, 2], [3, 4], [0, 1]]}, r'tokens\[1, 1\] is 4, but the model has ids 0 to 3'),
    ({'tokens': [[1, 2], [3, -1], [0, 1]]}, r'tokens\[1, 1\] is -1'),
    ({'verification': 'blok'}, "verification is 'blok'; it must be 'token' or 'block'"),
])
def test_speculative_decode_names_bad_input(options, message):
  arguments = {'tokens': TOKENS, 'max_decode_len': 4, **options}
  with pytest.raises(ValueError, match=message) as error:
    sd.speculative_decode(TARGET, DRAFTER, **arguments)
  assert '\n' not in str(error.value)


@pytest.mark.parametrize('options, message', [
    ({'max_decode_len': -1}, 'max_decode_len is -1;'),
    ({'ids': [1]}, r'ids must be integers of shape \[3\]'),
    ({'tokens': [[9]]}, r'tokens\[0, 0\] is 9'),
    ({'seed': 2**40}, 'seed is 1099511627776;'),
])
def test_autoregressive_decode_names_bad_input(options, message):
  with pytest.raises(ValueError, match=message):
    sd.autoregressive_decode(TARGET, **{'tokens': TOKENS, **options})


def test_models_of_other_tables_are_refused_before_anything_runs():
  with pytest.raises(ValueError, match='The draft has 200 logits, the target 4'):
    wide = TARGET.replace(config=toy.config(200))
    sd.speculative_decode(TARGET, sd.ModelDrafter(wide), TOKENS)


def test_whole_floats_and_device_arrays_are_taken(monkeypatch):
  seen = []
  monkeypatch.setattr(entry, 'decode_loop', lambda *args: seen.append(args) or PROGRAM(*args))
  sd.speculative_decode(TARGET, DRAFTER, jax.numpy.asarray(TOKENS), gamma=2.0, max_decode_len=4.0,
                        ids=jax.numpy.arange(3), seed=np.int64(3))
  (_, _, request, seed, ids, _, _, settings), = seen
  assert (settings.tree, settings.max_decode_len) == (sd.Tree.chain(2), 4) and seed == 3
  assert type(settings.max_decode_len) is int
  assert (request.tokens.dtype, request.lengths.dtype) == (np.int32, np.int32)
  assert (ids.dtype, seed.dtype) == (np.uint32, np.uint32)
