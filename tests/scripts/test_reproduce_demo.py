"""scripts/reproduce_demo.py with a stand-in for the runs."""

import pytest
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
