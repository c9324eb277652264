"""The throughput run on a tiny pair: both ways decode the same, and what is counted."""

import json

import pytest

from specdec_jax.data.examples import read_examples
from specdec_jax.jobs.claims import claimed
from specdec_jax.runs.throughput import throughput
from specdec_jax.sampling import Sampling


@pytest.mark.long
def test_both_ways_are_timed_and_give_the_same_texts(files, target, draft, tmp_path, capsys):
  examples = read_examples(files / 'inputs.jsonl')
  with claimed(str(tmp_path / 'out'), {}) as directory:
    result = throughput(directory, target, examples, draft, gamma=2, sampling=Sampling(), batch_sizes=(4,),
                        hand_backs=(1, 9), max_decode_len=12, max_input_len=32, buckets=(32,))
  one, other = result['measured']
  assert (one['way'], other['way']) == ('batch after batch', 'rows filled again')
  assert one['same_texts'] == other['same_texts'] == len(examples) and one['tokens'] == other['tokens'] > 0
  assert 0 < one['occupancy'] <= 1 and 0 < other['occupancy'] <= 1 and one['calls'] == 3 < other['calls']
  assert one['tokens_per_second'] == one['tokens'] / one['seconds'][0]
  assert other['hand_back'] == 1, '9 are more than there are rows'
  assert json.loads((tmp_path / 'out' / 'throughput.json').read_text()) == json.loads(json.dumps(result))
  table = (tmp_path / 'out' / 'throughput.md').read_text()
  assert '| rows filled again, 1 at once |' in table and table.strip() in capsys.readouterr().out
