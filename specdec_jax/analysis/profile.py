"""c and the verify cost as the paper measured them, from a profiler trace of real decodes [app. A.3].

`cost.measure` times parts in loops of their own; here `jax.profiler` watches whole decodes, and the
operations' times are summed by the named scope that the decoding loop put them in.
"""

import math
import pathlib
import re
import tempfile
from collections.abc import Iterable

import jax

from specdec_jax.analysis.cost import Cost
from specdec_jax.decoding import Settings, decode_loop, loop_arguments
from specdec_jax.errors import MissingError, UserError
from specdec_jax.sampling import Sampling
from specdec_jax.tree import Tree

_CRASHES = jax.__version_info__ < (0, 12)  # 0.10.2 does where libtpu is loaded, 0.12.0.1 does not
_LIBRARIES = pathlib.Path('/proc/self/maps')
SCOPES = ('target_encoder', 'draft_encoder', 'draft', 'target')  # `jax.named_scope`s of the decoding loop


def measure(target, drafter, tokens, gamma: int = 7, sampling: Sampling = Sampling(), *,
            max_decode_len: int = 128, seed: int = 0, repeats: int = 3) -> Cost:
  """Times of the parts of a decode, from the profiler; other arguments as `speculative_decode`.

  A time is that in which at least one operation of the part ran, over the number of its
  calls: the gaps between operations are not in it. Passes include their distributions and samples
  or rule, as in `cost`. Seen working on CPU.

  Returns:
    A `Cost`, whose seconds are means over `repeats` decodes with gamma and without a draft.

  Raises:
    UserError: the profiler saw no operation of a part, or would end the process: jax 0.10's
      does where a program was compiled for a TPU that is not there.
  """
  if (_CRASHES and jax.default_backend() != 'tpu' and _LIBRARIES.exists()
      and 'libtpu' in _LIBRARIES.read_text()):
    raise UserError(f'jax {jax.__version__} cannot profile in a process that has compiled for a TPU '
                       '(libtpu is loaded); profile in a process of its own, or with jax 0.12.')
  drafter.check(target)
  run = lambda drafter, tree: _profile(target, drafter, tokens, seed, sampling, repeats,
                                       Settings(tree=tree, max_decode_len=max_decode_len))
  seconds, iterations = run(drafter, Tree.chain(gamma))
  alone, steps = run(None, None)
  return Cost(gamma=gamma, draft_step=seconds['draft'] / (iterations * gamma),
              target_step=alone['target'] / steps, verify_pass=seconds['target'] / iterations,
              target_encoder=seconds['target_encoder'], draft_encoder=seconds['draft_encoder'])


def _profile(target, drafter, tokens, seed, sampling, repeats, settings) -> tuple[dict[str, float], int]:
  """Seconds by scope, and iterations, of a decode: means after a first one."""
  arguments = loop_arguments(target, drafter, tokens, settings, sampling, seed=seed)
  program = decode_loop.lower(*arguments, settings).compile()
  run = lambda: jax.block_until_ready(program(*arguments))
  run()
  with tempfile.TemporaryDirectory() as directory:
    with jax.profiler.trace(directory):
      for _ in range(repeats):
        result = run()
    seconds = scope_seconds(directory, program.as_text() or '')
  missing = [s for s in SCOPES if s not in seconds and (settings.tree or 'draft' not in s)
             and (s, getattr(drafter, 'draft', None)) != ('draft_encoder', None)]
  if missing:
    raise UserError(
        f"the profiler's trace holds no operation of {', '.join(missing)} on "
        f'{jax.default_backend()}; take analysis.cost.measure, which times the parts itself.')
  return {s: seconds.get(s, 0.0) / repeats for s in SCOPES}, int(result.stats.target_calls.max())


def scope_seconds(directory: str, program_text: str) -> dict[str, float]:
  """Reads the trace that `jax.profiler.trace(directory)` wrote: seconds by named scope.

  Args:
    directory: where it wrote; its newest .xplane.pb is read.
    program_text: of the compiled program, which says in which scope an operation is.
  """
  files = sorted(pathlib.Path(directory).rglob('*.xplane.pb'), key=lambda f: f.stat().st_mtime)
  if not files:
    raise MissingError(f"'{directory}' holds no profile (.xplane.pb) of jax.profiler.trace.")
  scope_of = operation_scopes(program_text)
  intervals = {}
  for operation, start, end in _events(jax.profiler.ProfileData.from_file(str(files[-1]))):
    if operation in scope_of:
      intervals.setdefault(scope_of[operation], []).append((start, end))
  return {scope: 1e-9 * covered(spans) for scope, spans in intervals.items()}


def operation_scopes(program_text: str) -> dict[str, str]:
  """{operation: scope} of a compiled program's text, operations of no scope left out.

  An operation that the compiler made anew has no name of origin; it belongs where its
  operands come from, else where its result goes.
  """
  scopes, unnamed = {}, set()
  for name, text in re.findall(r'^\s*(?:ROOT )?%?([\w.\-]+) = (.*)$', program_text, re.M):
    origin = re.search(r'op_name="([^"]*)"', text)
    operands = re.findall(r'(?<!=)%([\w.\-]+)', text)
    if origin or ' while(' in text:  # a loop holds more than what feeds it
      path = origin[1].split('/') if origin else ()
      scopes[name] = next((part for part in path if part in SCOPES), None)
    else:
      unnamed.add(name)
      scopes[name] = next((s for o in operands if (s := scopes.get(o))), None)
    for operand in operands:
      if operand in unnamed and scopes[operand] is None:
        scopes[operand] = scopes[name]
  return {name: scope for name, scope in scopes.items() if scope}


def covered(intervals: Iterable[tuple[float, float]]) -> float:
  """Length of the union of (start, end) intervals."""
  total, until = 0.0, -math.inf
  for start, end in sorted(intervals):
    total += max(0.0, end - max(start, until))
    until = max(until, end)
  return float(total)


def _events(profile):
  """(operation, start, end) on all devices, named as in the program's text; nanoseconds."""
  for plane in profile.planes:
    for line in plane.lines:
      for event in line.events:
        operation = next((v for k, v in event.stats if k == 'hlo_op'), None)
        if operation is None and line.name == 'XLA Ops':  # a TPU's: '%fusion.3 = bf16[...] ...'
          operation = event.name.split(' ')[0].lstrip('%')
        if operation is not None:
          yield str(operation), event.start_ns, event.start_ns + event.duration_ns
