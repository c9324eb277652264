"""What a command says while it works: one line each on stderr. Results alone go to stdout."""

import sys


def note(text: str, name: str = 'specdec_jax') -> None:
  """Prints a line on stderr, above a progress line where one is open; `name` is the command's."""
  line = f'{name}: {text}'
  if 'tqdm' in sys.modules:
    sys.modules['tqdm'].tqdm.write(line, file=sys.stderr)
  else:
    print(line, file=sys.stderr, flush=True)
