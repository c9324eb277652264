"""The pages: links lead somewhere, what they name exists, their Python runs."""

import re

import cells
import documented
import gin
import jax
import jax.numpy as jnp
import names
import numpy as np
import pytest
import tiny_lm

import specdec_jax as sd
import specdec_jax.cli.configurables

ROOT = documented.ROOT
FILES = ('cpp', 'csv', 'gin', 'gz', 'h', 'html', 'ipynb', 'json', 'jsonl', 'md', 'model', 'npz', 'png', 'py',
         'msgpack', 'safetensors', 'sh', 'svg', 'toml', 'tsv', 'txt', 'bin', 'yml')
OF_T5X = {'EncoderDecoderModel.predict_batch', 'infer.mode', 'SpeculativeModel.gamma', 'speculative.Draft.module',
          'specdec_jax.integrations.t5x.InteractiveModel'}  # what is there where T5X is


def prose(page):
  return re.sub(r'^ *```.*?^ *```$', '', page.read_text(encoding='utf-8'), flags=re.DOTALL | re.MULTILINE)


def anchors(page):
  """The fragments that a page's headings have, as hosts of repositories make them."""
  headings = re.findall(r'^#+ +(.*)$', prose(page), re.MULTILINE)
  return {re.sub(r'[^\w\- ]', '', h.lower()).strip().replace(' ', '-') for h in headings}


@pytest.mark.parametrize('page', documented.PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
  broken = []
  for link in re.findall(r'\]\(([^)\s]+)\)', prose(page)):
    path, _, fragment = link.partition('#')
    if '://' in link:
      continue
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or (fragment and fragment not in anchors(target)):
      broken.append(link)
  assert not broken


def test_every_page_is_in_the_readmes_list():
  linked = set(re.findall(r'\((docs/[\w./]+)\)', (ROOT / 'README.md').read_text()))
  pages = [*(ROOT / 'docs').iterdir(), *(ROOT / 'docs' / 'colab').iterdir()]
  assert {str(p.relative_to(ROOT)) for p in pages if p.is_file()} <= linked


def spans(page):
  """What stands in backquotes, on one line."""
  return set(re.findall(r'`([^`\n]+)`', prose(page)))


@pytest.mark.parametrize('page', documented.PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_paths_exist(page):
  tops = r'(?:\.ci|\.github|configs|docs|gin|scripts|specdec_jax|tests)'
  paths = {m[0] for span in spans(page) for m in re.finditer(rf'(?<![\w/.:-]){tops}/[\w./\-*]*', span)}
  wrong = [p for p in paths if not list(ROOT.glob(p.rstrip('/'))) and not (page.parent / p).exists()
           and not re.search(r'[A-Z]{3,}|\.\.\.', p)]  # VERSION and ... stand for something
  assert not wrong


def exists(name):
  """Whether a dotted name is a setting of gin, or something in this project or in a library."""
  if name in OF_T5X or names.resolve(name):
    return True
  try:
    gin.parse_config(f'{name} = None')
    return True
  except ValueError:
    return False


@pytest.mark.parametrize('page', documented.PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_names_exist(page):
  dotted = {m[1] for span in spans(page) if (m := re.match(r'([A-Za-z_]\w*(?:\.\w+)+)(?:\(.*\)| = .*)?$', span))}
  assert not [n for n in dotted if n.rpartition('.')[2] not in FILES and not exists(n)]


def test_names_that_do_not_exist_are_found():
  assert exists('sd.tpu.plan') and exists('result.trace') and exists('compare.gammas') and exists('jax.jit')
  assert not any(map(exists, ['sd.tpu.plon', 'result.tracks', 'compare.gama', 'jax.jot', 'speculative.verify']))


NOT_OURS = re.compile(r'\b(laws?|behind|said|told)\b', re.IGNORECASE)  # distribution; after; reported


@pytest.mark.parametrize('path', [*documented.PAGES, *documented.CONFIGURATIONS],
                         ids=lambda p: str(p.relative_to(ROOT)))
def test_words_are_the_fields(path):
  text = prose(path) if path.suffix == '.md' else path.read_text(encoding='utf-8')
  assert not [f'{m[0]}: ...{text[max(0, m.start() - 40):m.end() + 20]}...' for m in NOT_OURS.finditer(text)]


def python(page):
  return [b for b in documented.blocks(page) if b.language == 'python']


WITH_PYTHON = [p for p in documented.PAGES if python(p)]


@pytest.mark.parametrize('page', WITH_PYTHON, ids=lambda p: str(p.relative_to(ROOT)))
def test_what_python_names_exists(page):
  namespace = {'sd': sd, 'jax': jax, 'jnp': jnp, 'np': np}
  for block in python(page):
    namespace.update(cells.imports(block.text))
    assert not cells.unknown(block.text, namespace), block.where


@pytest.fixture
def small(target, draft, tmp_path, monkeypatch):
  """sd with tiny models under every name, one device for every mesh, and a directory to write to."""
  vocabulary = tiny_lm.vocabulary(tmp_path)
  lm = [tiny_lm.random_lm(seed, vocabulary, max_positions=128) for seed in range(2)]
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(sd, 'Mesh', lambda **_: None)
  monkeypatch.setattr(sd, 'load_model', lambda name, **_: (lm if ':lm' in name else [target, draft])[
      'draft' in name or 'small' in name])
  monkeypatch.setattr(sd, 'load_ngram', lambda name: sd.NGramDrafter.fit([[5, 6, 7, 1]], vocabulary=target.vocabulary))


@pytest.mark.parametrize('page', [pytest.param(p, marks=() if p.name == 'README.md' else pytest.mark.long,
                                               id=str(p.relative_to(ROOT))) for p in WITH_PYTHON])
def test_python_runs(page, small, target, draft):
  known = {'sd': sd, 'jax': jax, 'jnp': jnp, 'np': np, 'target': target, 'draft': draft, 'chain': jnp.eye(8),
           'tokens': target.encode(['the file'])}
  for block in python(page):
    exec(compile(block.text, block.where, 'exec'), known)
