"""`compilation.jit` is `jax.jit`, with the options of the devices that the arguments lie on."""

import functools

import jax
import numpy as np
import pytest

from specdec_jax import compilation
from specdec_jax.decoding import decode_loop


def doubled(x, times):
  return 2 * x * times


def test_it_is_jax_jit():
  program = functools.partial(compilation.jit, static_argnames='times')(doubled)
  assert program.__wrapped__ is doubled and program.__name__ == 'doubled'
  assert program(np.float32(3), times=2) == program(np.float32(3), times=2) == 12
  assert program._cache_size() == 1 and program(np.float32(3), times=4) == 24 and program._cache_size() == 2
  assert 'multiply' in program.lower(np.float32(3), times=2).as_text()
  assert jax.jit(lambda x: program(x, times=2))(3.0) == 12  # within another program


@pytest.mark.parametrize('call', [
    lambda program, x: program(x), lambda program, x: program.lower(x).compile(),
    lambda program, x: program(np.float32(1), x), lambda program, x: program({'of': [x]})])
def test_options_go_by_the_kind_of_device(call, monkeypatch):
  x = jax.device_put(np.float32(3))
  call(compilation.jit(lambda *args: args), x)
  monkeypatch.setattr(compilation, 'OPTIONS', {x.device.device_kind: {'xla_no_such_option': True}})
  assert compilation.options_for({'x': [None, 5, x]}) == {'xla_no_such_option': True}
  with pytest.raises(jax.errors.JaxRuntimeError, match='xla_no_such_option'):
    call(compilation.jit(lambda *args: args), x)
  assert compilation.options_for(np.ones(3)) == {}


def test_decodes_are_compiled_so():
  assert isinstance(decode_loop, compilation.jit)
