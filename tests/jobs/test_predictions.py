import json

from specdec_jax.jobs.predictions import FAILED, Predictions


def record(index, status='EOS'):
  return {index: {'id': f'e{index}', 'text': f'größe {index}', 'status': status}}


def lines(path):
  return [json.loads(line) for line in open(path, encoding='utf-8')]


def test_the_final_file_is_in_input_order(tmp_path):
  predictions = Predictions(str(tmp_path), 3)
  for index in (2, 0, 1):
    predictions.add(record(index))
  assert [r['id'] for r in predictions] == ['e0', 'e1', 'e2']
  predictions.finish()
  assert [r['id'] for r in lines(predictions.path)] == ['e0', 'e1', 'e2']
  assert 'index' not in lines(predictions.path)[0]
  assert not (tmp_path / 'predictions.partial.jsonl').exists()
  again = Predictions(str(tmp_path), 3)
  assert again.complete and again.done == {0, 1, 2}


def test_what_a_crash_left_is_found_again(tmp_path):
  first = Predictions(str(tmp_path), 4)
  first.add(record(3) | record(1))
  partial = tmp_path / 'predictions.partial.jsonl'
  with open(partial, 'ab') as f:
    f.write(b'{"index": 0, "id": "e0", "te')  # torn off
  second = Predictions(str(tmp_path), 4)
  assert second.done == {1, 3} and not second.complete
  second.add(record(0) | record(2))
  second.finish()
  assert [r['text'] for r in lines(second.path)] == [f'größe {i}' for i in range(4)]


def test_failed_examples_are_open_again(tmp_path):
  first = Predictions(str(tmp_path), 2)
  first.add(record(0) | record(1, FAILED))
  first.finish()
  assert [r['status'] for r in lines(first.path)] == ['EOS', FAILED]
  second = Predictions(str(tmp_path), 2)
  assert second.done == {0} and second.failed == {1} and not second.complete
  second.add(record(1))
  second.finish()
  assert [r['status'] for r in lines(second.path)] == ['EOS', 'EOS'] and second.complete
