import json

import numpy as np
import pytest

from specdec_jax.analysis import alpha as alpha_lib
from specdec_jax.data.examples import read_examples
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.measure.alphas import over_texts
from specdec_jax.runs import alphas
from specdec_jax.sampling import Sampling

WARM = Sampling(temperature=1.0)


@pytest.fixture(scope='module')
def examples(files):
  return read_examples(files / 'inputs.jsonl')


def test_every_drafter_is_measured_on_the_same_texts(target, draft, examples, tmp_path):
  drafters = {'itself': ModelDrafter(target), 'draft': ModelDrafter(draft)}
  result = alphas.alphas(str(tmp_path), target, examples, drafters, samplings=(WARM,),
                         leniences=(1.0, 0.5), max_decode_len=12, max_input_len=32, buckets=(32,),
                         batch_size=4)
  found = {(m['drafter'], m['lenience']): m for m in result['alphas']}
  assert found['itself', 1.0]['alpha'] == pytest.approx(1, abs=1e-5)
  assert found['draft', 1.0]['alpha'] < found['draft', 0.5]['alpha']
  assert len({m['tokens'] for m in result['alphas']}) == 1
  assert json.loads((tmp_path / 'alphas.json').read_text()) == json.loads(json.dumps(result))
  text = (tmp_path / 'alphas.md').read_text()
  assert '|       l = 0.5 |' in text and '| itself  | temperature 1 | 1.000 ± 0.000 | 1.000 ± 0.000 |' in text

  inputs = InputOptions(max_input_len=32).encode(target, examples)
  batches = InputOptions(batch_size=4, max_input_len=32, buckets=(32,)).batches(inputs)
  results = [Method(sampling=WARM, max_decode_len=12)(target, b) for b in batches]
  sums, counts = np.concatenate([
      [alpha_lib.text_betas(target, draft, b.tokens, r.tokens, r.lengths, WARM), r.lengths]
      for b, r in zip(batches, results)], axis=1)
  assert found['draft', 1.0]['alpha'] == pytest.approx(sums.sum() / counts.sum(), rel=1e-5)


def test_models_run_once_for_all_leniences(target, draft, examples, monkeypatch):
  inputs = InputOptions(max_input_len=32).encode(target, examples)
  batches = InputOptions(batch_size=4, max_input_len=32, buckets=(32,)).batches(inputs)
  results = [Method(sampling=WARM, max_decode_len=12)(target, b) for b in batches]
  run, calls = alpha_lib._betas, []
  monkeypatch.setattr(alpha_lib, '_betas', lambda *a, **k: calls.append(a) or run(*a, **k))
  over = lambda *leniences: over_texts(
      target, ModelDrafter(draft), batches, results, WARM, 10_000, leniences)
  together = over(1.0, 0.5)
  once = len(calls)
  apart = over(1.0) | over(0.5)
  assert len(calls) == 3 * once and list(together) == [1.0, 0.5]
  for lenience in together:
    assert together[lenience].alpha == pytest.approx(apart[lenience].alpha, rel=1e-6)


def test_no_more_texts_than_asked_for(target, draft, examples):
  inputs = InputOptions(max_input_len=32).encode(target, examples)
  batches = InputOptions(batch_size=4, max_input_len=32, buckets=(32,)).batches(inputs)
  results = [Method(sampling=WARM, max_decode_len=12)(target, b) for b in batches]
  few = over_texts(target, ModelDrafter(draft), batches, results, WARM, num_tokens=20)[1.0]
  assert 20 <= few.num_tokens < 20 + 12
