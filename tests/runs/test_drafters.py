"""The drafters run: each drafter beside the target alone, on the same inputs."""

import json

import pytest

from specdec_jax.data.examples import read_examples
from specdec_jax.drafters.lookup import LookupDrafter
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.runs import drafters
from specdec_jax.sampling import Sampling


@pytest.mark.long
def test_every_drafter_has_its_row(target, files, tmp_path):
  examples = list(read_examples(files / 'inputs.jsonl'))[:3]
  named = {'itself': ModelDrafter(target), 'lookup': LookupDrafter()}
  result = drafters.drafters(str(tmp_path), target, examples, named, gammas=(2,), samplings=(Sampling(temperature=0),),
                             max_decode_len=8, max_input_len=32, buckets=(32,), batch_size=3)
  found = {row['drafter']: row for row in result['rows']}
  assert list(found) == ['itself', 'lookup']
  assert found['itself']['alpha'] == 1 and found['itself']['tokens_per_call'] > found['lookup']['tokens_per_call']
  assert all(row['outputs']['relation'] == 'identical' and row['c'] > 0 for row in found.values())
  assert json.loads((tmp_path / 'drafters.json').read_text()) == json.loads(json.dumps(result))
  text = (tmp_path / 'drafters.md').read_text()
  assert '| greedy   | itself  |     2 | 1.000 ±' in text and '| lookup  | lookup (input and output' in text
