"""scripts/reproduce_demo.py with a stand-in for the runs."""

import pytest
from absl.testing import flagsaver
from paper_reports import REPORT, SCRIPTS, imported


def test_the_page_gets_its_tables(monkeypatch, tmp_path):
  with imported('reproduce_demo') as demo:
    monkeypatch.setattr(demo.paper_runs, 'run', lambda *unused: REPORT)
    monkeypatch.setattr(demo.paper_runs, 't5x_settings', list)
    parts = demo.measured_tables(tmp_path, [])
    page = demo.replace((SCRIPTS.parent / 'docs' / 'results.md').read_text(), parts)
    assert demo.replace(page, parts) == page
    assert (tmp_path / 'table2.png').stat().st_size
    for words in ('| bigram', '| embedded EnDe | draft', 'On 1 x cpu.', '2.99X'):
      assert words in page
    with pytest.raises(ValueError, match='no <!-- pair -->'):
      demo.replace('an empty page', parts)


def test_a_page_is_rewritten_only_where_it_is_named(monkeypatch, tmp_path, capsys):
  page = tmp_path / 'docs' / 'page.md'
  page.parent.mkdir()
  with imported('reproduce_demo') as demo:
    monkeypatch.setattr(demo.paper_runs, 'run', lambda *unused: REPORT)
    monkeypatch.setattr(demo.paper_runs, 't5x_settings', list)
    before = {path: path.read_bytes() for path in (SCRIPTS.parent / 'docs').rglob('*') if path.is_file()}
    with flagsaver.flagsaver(output=str(tmp_path / 'out')):
      assert demo.main(['reproduce_demo']) == 0
    assert before == {path: path.read_bytes() for path in (SCRIPTS.parent / 'docs').rglob('*') if path.is_file()}
    text = (tmp_path / 'out' / 'results.md').read_text()
    assert text in capsys.readouterr().out and text.count('## ') == 6 and '2.99X' in text
    page.write_text('\n'.join(f'<!-- {name} -->\n<!-- end of {name} -->' for name in demo.TITLES))
    with flagsaver.flagsaver(output=str(tmp_path / 'out'), page=str(page)):
      assert demo.main(['reproduce_demo']) == 0
    assert page.read_text().count('2.99X') == text.count('2.99X')
    assert (page.parent / 'images' / 'table2.png').stat().st_size
    page.write_text('no markers')
    with flagsaver.flagsaver(output=str(tmp_path / 'out'), page=str(page)):
      assert demo.main(['reproduce_demo']) == 1
    assert 'the page has no <!-- pair -->' in capsys.readouterr().err and page.read_text() == 'no markers'
