"""What to lower where a run needs more memory than there is: the setting that is furthest beyond what is usual."""

from collections.abc import Iterable
from typing import Any

from specdec_jax.cli import bindings

# Of the settings that set the size of a device call: more of them is possible, and not usual.
_USUAL = {'gamma': 16, 'gammas': 16, 'tree': 64, 'num_beams': 16, 'draft_beams': 32, 'batch_size': 64, 'batch': 64,
          'max_decode_len': 1024, 'max_input_len': 2048, 'buckets': 2048, 'tokens_per_batch': 1 << 16}
_OTHERWISE = ('lower batch_size, on which no result depends, or in training tokens_per_batch; where one row does not '
              "fit, load_model.dtype = 'bfloat16' or a Mesh over several devices: `specdec_jax plan` tells what fits")


def mend() -> str:
  """What would help the configuration that was run, for the end of a sentence."""
  beyond = [(value / _USUAL[parameter], bindings.name(scope, selector, parameter), value)
            for (scope, selector), parameters in bindings.every().items()
            for parameter, bound in parameters.items() if parameter in _USUAL
            for value in _numbers(bound) if value > _USUAL[parameter]]
  if not beyond:
    return _OTHERWISE
  _, name, value = max(beyond)
  return f'{name} = {value:,} is far more than usual: lower it'


def _numbers(value: Any) -> Iterable[float]:
  """The numbers of a setting, macros followed."""
  if bindings.is_reference(value):
    if not bindings.is_macro(value):
      return []
    return [n for _, inner in bindings.effective(tuple(value.scopes), bindings.MACRO).values() for n in _numbers(inner)]
  if isinstance(value, (tuple, list)):
    return [n for item in value for n in _numbers(item)]
  return [value] if isinstance(value, (int, float)) and not isinstance(value, bool) else []
