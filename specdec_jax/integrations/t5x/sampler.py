"""What T5X's sampler is asked for by a model's decode_fn, wherever its settings were bound."""

import contextlib
import dataclasses
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from t5x import decoding

from specdec_jax.errors import SettingError
from specdec_jax.sampling import Sampling

_TRIAL = '_temperature_sample_single_trial'  # what `temperature_sample` hands its settings to
_LOCK = threading.Lock()
_UNKNOWN = ('state_callback_fn', 'logit_callback_fn')


@dataclasses.dataclass(frozen=True)
class Asked:
  """The settings of one call of `temperature_sample`.

  Attributes:
    sampling: of a token; greedy where T5X takes the best (topk = 1, or a temperature of at most 0.0001).
    max_decode_steps: most tokens of a row; None is as many as there is room for.
    rescale_log_probs: whether scores are of the distribution that is sampled from, or of the model's own.
  """

  sampling: Sampling
  max_decode_steps: int | None
  rescale_log_probs: bool


def check(decode_fn: Any) -> None:
  """SettingError where a decode_fn is not `temperature_sample`, with arguments bound or not."""
  inner = decode_fn
  while inner is not decoding.temperature_sample:
    if isinstance(inner, functools.partial):
      inner = inner.func
    elif hasattr(inner, '__wrapped__'):  # gin's
      inner = inner.__wrapped__
    else:
      name = getattr(inner, '__name__', repr(inner))
      raise SettingError(f'decode_fn is {name}; speculation is of t5x.decoding.temperature_sample (its topk = 1, the '
                         'default, is greedy). T5X itself decodes with any other: leave speculation out.')


def asked(decode_fn: Callable, decoder_params: Mapping[str, Any]) -> Asked:
  """What a call of a decode_fn with these parameters samples.

  The function is called with T5X's inner loop replaced by one that keeps what it is given, so that bindings of gin
  and of `functools.partial` count as they do in T5X.

  Raises:
    SettingError: a setting that has no counterpart, or a number that is not known when the program is compiled.
  """
  params = {name: value for name, value in decoder_params.items() if name not in ('decode_rng', 'eos_id')}
  with _recorded() as found, jax.ensure_compile_time_eval():
    decode_fn(inputs=jnp.zeros((1, 1), jnp.int32), cache={}, tokens_to_logits=None, eos_id=1, num_decodes=1,
              cache_offset=0, decode_rng=None, **params)
  for name in _UNKNOWN:
    if found[name] is not None:
      raise SettingError(f'{name} is {found[name]}; a text that is drafted has no place for it. T5X itself decodes '
                         'with it: leave speculation out.')
  temperature, topk, topp = (_number(name, found[name]) for name in ('temperature', 'topk', 'topp'))
  if topk and topp:
    raise SettingError(f'topk is {topk} and topp {topp}; as in T5X at most one of them may be other than 0.')
  greedy = topk == 1 or temperature <= float(decoding.MIN_TEMPERATURE)
  steps = found['max_decode_steps']
  return Asked(
      sampling=Sampling(temperature=0.0 if greedy else temperature, top_k=int(topk), top_p=topp or 1.0),
      max_decode_steps=None if steps is None else int(_number('max_decode_steps', steps)),
      rescale_log_probs=bool(found['rescale_log_probs']))


@contextlib.contextmanager
def _recorded() -> Iterator[dict[str, Any]]:
  """What T5X's inner loop is called with meanwhile."""
  found: dict[str, Any] = {}
  with _LOCK:
    trial = getattr(decoding, _TRIAL)
    signature = inspect.signature(trial)

    def record(*args, **kwargs):
      bound = signature.bind(*args, **kwargs)
      bound.apply_defaults()
      found.update(bound.arguments)
      return jnp.zeros((1, 1), jnp.int32), jnp.zeros(1, jnp.float32)

    setattr(decoding, _TRIAL, record)
    try:
      yield found
    finally:
      setattr(decoding, _TRIAL, trial)


def _number(name: str, value: Any) -> float:
  if isinstance(value, jax.core.Tracer) or np.ndim(value):
    raise SettingError(f'{name} is {value}; with speculation it must be one number for all rows, known when the '
                       'program is compiled.')
  return float(value)
