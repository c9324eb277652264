"""The other programs that decode the same weights, by name."""

import importlib.util
from collections.abc import Sequence
from typing import Any

from specdec_jax.errors import SettingError
from specdec_jax.model import Model

NAMES = ('t5x', 'transformers', 'ctranslate2')
_MODULES = {'t5x': ('t5x',), 'transformers': ('torch', 'transformers'),
            'ctranslate2': ('torch', 'transformers', 'ctranslate2')}


def present(model: Model) -> list[str]:
  """Those that can be imported here and know models of this kind."""
  found = [name for name in NAMES if all(importlib.util.find_spec(m) for m in _MODULES[name])]
  return [name for name in found if name == 'transformers' or not model.config.decoder_only]


def methods(names: Sequence[str], target: Model, max_decode_len: int, draft: Model | None = None,
            gamma: int | None = None) -> list[Any]:
  """What they decode with, each called as a `jobs.methods.Method`.

  Args:
    names: of `NAMES`.
    target: whose weights they get.
    max_decode_len: most tokens of a text.
    draft, gamma: of transformers' assisted generation; None leaves it out.

  Raises:
    SettingError: an unknown name. DependencyError: a program that is not installed.
  """
  made: list[Any] = []
  for name in names:
    if name == 't5x':
      from specdec_jax.benchmarks.of_t5x import T5XMethod
      made.append(T5XMethod(target, max_decode_len))
    elif name == 'transformers':
      from specdec_jax.benchmarks.of_transformers import TransformersMethod
      made.append(TransformersMethod(target, max_decode_len))
      if draft is not None:
        made.append(TransformersMethod(target, max_decode_len, draft, gamma))
    elif name == 'ctranslate2':
      from specdec_jax.benchmarks.of_ctranslate2 import CTranslate2Method
      made += [CTranslate2Method(target, max_decode_len, kind) for kind in ('float32', 'int8')]
    else:
      raise SettingError(f"--others names '{name}', which is not known; known are {', '.join(NAMES)}.")
  return made
