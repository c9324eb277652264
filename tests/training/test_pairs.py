"""Training pairs from parallel text and from predictions."""

import gzip
import json

import pytest

from specdec_jax.data.examples import Example
from specdec_jax.errors import InputError
from specdec_jax.training.pairs import concatenate, read_pairs, read_predictions, text_pairs


class Letters:
  """A vocabulary of letters: 'a' is 10."""

  eos_id = 1

  def encode(self, text):
    return [ord(c) - ord('a') + 10 for c in text]


def test_reads_tab_separated_pairs(tmp_path):
  path = tmp_path / 'pairs.tsv.gz'
  with gzip.open(path, 'wt') as f:
    f.write('ab\tc\tsource\nb\taa\n')
  assert read_pairs(str(path), Letters()) == [([10, 11, 1], [12, 1]), ([11, 1], [10, 10, 1])]


def test_names_the_line_without_a_second_column(tmp_path):
  path = tmp_path / 'pairs.tsv'
  path.write_text('a\tb\nno tab\n')
  with pytest.raises(ValueError, match='line 2: no column 1 for reference'):
    read_pairs(str(path), Letters())


def test_distils_on_the_tokens_that_the_target_emitted(tmp_path):
  path = tmp_path / 'predictions.jsonl'
  lines = [{'input': 'a', 'tokens': [12, 1], 'status': 'EOS'},
           {'input': 'b', 'tokens': [12, 12], 'status': 'LENGTH'},
           {'id': 3, 'status': 'FAILED', 'error': 'out of something'}]
  path.write_text('\n'.join(map(json.dumps, lines)) + '\n')
  assert read_predictions(str(path), Letters()) == [([10, 1], [12, 1])]
  of_sample = lambda status, *tokens: {'status': status, 'tokens': list(tokens)}
  path.write_text(json.dumps({'input': 'a', 'target_prefix': 'b', 'samples': [
      of_sample('EOS', 12, 1), of_sample('LENGTH', 13), of_sample('EOS', 1)]}))
  assert read_predictions(str(path), Letters()) == [([10, 1], [11, 12, 1]), ([10, 1], [11, 1])]
  for bad in ('{"text": 1}', '{"status": "EOS"}', '5', '{', '{"status": "EOS", "input": 5}'):
    path.write_text(json.dumps(lines[0]) + f'\n{bad}\n')
    with pytest.raises(InputError, match='line 2: not a prediction'):
      read_predictions(str(path), Letters())


def test_concatenates():
  assert concatenate([[1], [2, 3]]) == [1, 2, 3]


def test_texts_are_packed_whole():
  texts = ['a' * (1 + i % 7) for i in range(200)] + ['b' * 30]
  examples = [Example(i, t, 'c' + t) for i, t in enumerate(texts)]
  rows = lambda **options: [row.tolist() for _, row in text_pairs(examples, Letters(), **options)]
  plain, packed = rows(), rows(pack=20)
  assert plain[3] == [10] * 4 + [1] and len(plain) == 201
  assert rows(field='reference')[3] == [12] + plain[3]
  whole = lambda rows: sorted(text for row in rows for text in bytes(row).split(b'\1')[:-1])
  assert whole(packed) == [t for t in whole(plain) if len(t) < 20]  # the long one is left out
  lengths = [len(row) for row in packed]
  assert max(lengths) <= 20 and sum(lengths) > 0.9 * 20 * len(packed)
  assert packed == rows(pack=20) != rows(pack=20, seed=1)
