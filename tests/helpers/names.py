"""Whether a dotted name that a document shows exists, in this project or in a library."""

import importlib

RESULT = 'specdec_jax.results.Result'
STANDS_FOR = {'r': RESULT, 'result': RESULT, 'Result': RESULT, 'sd': 'specdec_jax', 'lax': 'jax.lax',
              'Layout': 'jax.experimental.layout.Layout'}


def resolve(name: str) -> bool:
  """'sd.verify', 'analysis.cost' (a module of this project), 'result.stats' or 'jax.jit': whether it exists."""
  first, dot, rest = name.partition('.')
  return any(_resolve(start + dot + rest) for start in (f'specdec_jax.{first}', STANDS_FOR.get(first, first)))


def _resolve(name):
  parts = name.split('.')
  for count in range(len(parts), 0, -1):
    try:
      value = importlib.import_module('.'.join(parts[:count]))
    except (ImportError, ValueError):
      continue
    for part in parts[count:]:
      fields = {**getattr(value, '__dataclass_fields__', {}), **getattr(value, '__annotations__', {})}
      if not hasattr(value, part) and part not in fields:
        return False
      value = getattr(value, part, None)
    return True
  return False
