"""What the documents show: code blocks of the pages, commands in the headers of configurations and programs."""

import dataclasses
import pathlib
import re
import shlex
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / 'README.md', ROOT / 'CONTRIBUTING.md', *sorted((ROOT / 'docs').glob('*.md')),
         *sorted((ROOT / 'specdec_jax' / 'embedded').glob('*/README.md'))]
CONFIGURATIONS = sorted(p for folder in ('gin', 'configs') for p in (ROOT / folder).rglob('*.gin'))
PROGRAMS = sorted([*(ROOT / 'scripts').glob('*.py'), *(ROOT / 'specdec_jax').rglob('*.py')])
_FENCE = re.compile(r'^( *)```(\S*)$')
_HEADER_COMMAND = re.compile(r'^(#  | ) +(python |pip |scripts/|specdec_jax )')


@dataclasses.dataclass(frozen=True)
class Block:
  """A code block, or one command of a header.

  Attributes:
    where: file and line, to find it by.
    language: what the page says it is: 'bash', 'gin', 'python', 'text'.
    text: its lines, without indentation.
  """

  where: str
  language: str
  text: str


def blocks(page: pathlib.Path) -> list[Block]:
  """The fenced blocks of a page."""
  found, opened = [], None
  lines = page.read_text(encoding='utf-8').splitlines()
  for number, line in enumerate(lines, 1):
    fence = _FENCE.match(line)
    if fence and opened is None:
      opened = number, fence[2]
    elif fence:
      text = textwrap.dedent('\n'.join(lines[opened[0]:number - 1]))
      found.append(Block(f'{page.relative_to(ROOT)}:{opened[0]}', opened[1], text))
      opened = None
  assert opened is None, f'{page}: the block of line {opened[0]} is not closed'
  return found


def indented_blocks(page: pathlib.Path) -> list[str]:
  """Code that is marked by four spaces instead of a fence, by file and line."""
  found, fenced, blank = [], False, True
  for number, line in enumerate(page.read_text(encoding='utf-8').splitlines(), 1):
    fenced ^= bool(_FENCE.match(line))
    if blank and not fenced and line.startswith('    ') and line.strip():
      found.append(f'{page.relative_to(ROOT)}:{number}')
    blank = not line.strip()
  return found


def header_commands(path: pathlib.Path) -> list[Block]:
  """Commands in the comments of a gin file, or in the docstring of a program, a block each."""
  found, lines = [], iter(enumerate(path.read_text(encoding='utf-8').splitlines(), 1))
  for number, line in lines:
    if line and not line.startswith(('#', '"""', ' ')) and not path.name.endswith('.gin'):
      break  # past the docstring
    if not _HEADER_COMMAND.match(line) or (path.name.endswith('.gin') and not line.startswith('#')):
      continue
    text = [line.lstrip('# ')]
    while text[-1].rstrip().endswith('\\'):
      text[-1] = text[-1].rstrip().rstrip('\\') + '\\'  # a docstring escapes the backslash
      text.append(next(lines)[1].lstrip('# '))
    found.append(Block(f'{path.relative_to(ROOT)}:{number}', 'bash', '\n'.join(text)))
  return found


def shell_blocks() -> list[Block]:
  """Everything that a reader would paste into a shell."""
  pages = [block for page in PAGES for block in blocks(page) if block.language == 'bash']
  return pages + [block for path in (*CONFIGURATIONS, *PROGRAMS) for block in header_commands(path)]


def commands(block: Block) -> list[list[str]]:
  """A block's commands as a shell splits them into words, without comments and variable assignments."""
  found, line = [], ''
  for part in block.text.replace('\\\n', ' ').splitlines():
    line += part
    try:
      words = shlex.split(line, comments=True)
    except ValueError:  # a quotation that goes on in the next line
      line += '\n'
      continue
    line = ''
    while words and re.match(r'^[A-Z_]+=', words[0]):
      words.pop(0)
    if words:
      found.append(words)
  return found
