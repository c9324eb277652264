"""docs/paper.md: every name and every test in its tables exists, every statement that the code cites has a row."""

import ast
import re

import documented
import names
import pytest

ROOT = documented.ROOT
PAGE = (ROOT / 'docs' / 'paper.md').read_text(encoding='utf-8')
ROWS = [[cell.strip() for cell in line.strip('|').split('|')] for line in PAGE.splitlines()
        if re.match(r'\| \[', line)]
CITED = re.compile(r'\[((?:alg|eq|thms?|cor|lemma|def|app|figs?|tab)\.? [A-Z]?[\w.]*|§\d[\d.]*)')
SECTIONS = {'§3', '§3.1', '§3.3', '§6'}  # whole sections; their statements have rows


def statement(cell):
  return re.match(r'\[(.*?)\]', cell)[1]


@pytest.mark.parametrize('row', ROWS, ids=lambda row: statement(row[0]))
def test_code_and_tests_exist(row):
  _, code, tests = row
  for name in re.findall(r'`(.+?)`', code):
    assert (ROOT / name).exists() if '/' in name else names.resolve(name), name
  found = re.findall(r'`(.+?)`', tests)
  assert found and '`' in code
  for test in found:
    path, _, function = test.partition('::')
    tree = ast.parse((ROOT / path).read_text(encoding='utf-8'))
    assert not function or function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, test


def test_every_statement_that_is_cited_has_a_row():
  here = PAGE.partition('\n')[2]
  cited = {}
  for path in sorted((ROOT / 'specdec_jax').rglob('*.py')):
    for m in CITED.finditer(path.read_text(encoding='utf-8')):
      cited.setdefault(m[1].replace('thms', 'thm'), str(path.relative_to(ROOT)))
  assert len(cited) > 15
  missing = {s: where for s, where in cited.items() if f'[{s}]' not in here and s not in SECTIONS}
  assert not missing
