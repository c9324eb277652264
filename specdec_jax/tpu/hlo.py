"""A compiled TPU program's text, as computations of instructions."""

import dataclasses
import functools
import math
import re

_BYTES = {'pred': 1, 's8': 1, 'u8': 1, 'bf16': 2, 'f16': 2, 's16': 2, 'u16': 2, 'f32': 4, 's32': 4,
          'u32': 4, 's64': 8, 'u64': 8}
_ARRAY = re.compile(r'\b(' + '|'.join(_BYTES) + r')\[([\d,]*)\](\{[^}]*\})?')
_INSTRUCTION = re.compile(r'\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)$')
_HEADER = re.compile(r'(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$')


@dataclasses.dataclass(frozen=True)
class Array:
  """An array of a result.

  Attributes:
    dtype, dims: such as 'bf16' and (4096, 10240).
    on_chip: in the chip's own memory, not in HBM.
  """

  dtype: str
  dims: tuple[int, ...]
  on_chip: bool

  @property
  def bytes(self) -> int:
    return math.prod(self.dims) * _BYTES[self.dtype]


@dataclasses.dataclass(frozen=True)
class Instruction:
  """A line: `name = type op(operands), rest`."""

  name: str
  type: str
  op: str
  operands: tuple[str, ...]
  rest: str

  @functools.cached_property
  def arrays(self) -> tuple[Array, ...]:
    return tuple(Array(dtype, tuple(int(d) for d in dims.split(',') if d),
                       bool(re.search(r'S\([13]\)', layout or '')))
                 for dtype, dims, layout in _ARRAY.findall(self.type))

  def called(self, attribute: str) -> str | None:
    """The computation that `body=`, `calls=`, `called_computations=` or `condition=` names, the first of several."""
    found = re.search(rf'\b{attribute}=\{{?%?([\w.\-]+)', self.rest)
    return found and found[1]


@dataclasses.dataclass(frozen=True)
class Module:
  computations: dict[str, list[Instruction]]
  entry: str


def parse(text: str) -> Module:
  """What stands in `compiled.as_text()`, layouts and metadata aside."""
  computations, entry, current = {}, '', None
  for line in text.splitlines():
    if header := _HEADER.match(line):
      current = computations.setdefault(header[2], [])
      if header[1]:
        entry = header[2]
    elif current is not None and (found := _INSTRUCTION.match(line)):
      name, type_, op, rest = found.groups()
      current.append(Instruction(name, type_, op, _operands(rest), rest))
  return Module(computations, entry)


def _operands(rest: str) -> tuple[str, ...]:
  """The names before the parenthesis that closes the operands."""
  depth = 1
  for at, letter in enumerate(rest):
    depth += (letter == '(') - (letter == ')')
    if not depth:
      return tuple(re.findall(r'%([\w.\-]+)', rest[:at]))
  return ()
