"""Token pairs to train on: from parallel text, or from what a target said."""

from collections.abc import Sequence
import gzip
import json

from specdec_jax.data.vocabulary import Vocabulary

Pair = tuple[list[int], list[int]]


def read_pairs(path: str, vocabulary: Vocabulary) -> list[Pair]:
  """Source and target ids, both ending in EOS, of a tab-separated file (.gz too).

  Further columns are left alone. ValueError names the line that has no tab.
  """
  eos = [vocabulary.eos_id]
  pairs = []
  for number, line in enumerate(_lines(path), 1):
    columns = line.split('\t')
    if len(columns) < 2:
      raise ValueError(f'{path}, line {number}: no tab; a line is SOURCE<TAB>TARGET.')
    pairs.append((vocabulary.encode(columns[0]) + eos, vocabulary.encode(columns[1]) + eos))
  return pairs


def read_predictions(path: str, vocabulary: Vocabulary) -> list[Pair]:
  """Inputs and the target's own tokens from the predictions of a decode run.

  For distillation: the ids that the target emitted, not its text tokenised again.
  Rows that did not end in EOS are left out, so that no cut-off text is learnt.
  """
  pairs = []
  for number, line in enumerate(_lines(path), 1):
    try:
      record = json.loads(line)
      source, tokens, status = record['input'], record['tokens'], record['status']
    except (ValueError, KeyError) as e:
      raise ValueError(f'{path}, line {number}: not a prediction of a decode run ({e}).') from None
    if status == 'EOS':
      pairs.append((vocabulary.encode(source) + [vocabulary.eos_id], tokens))
  return pairs


def concatenate(sources: Sequence[list[Pair]]) -> list[Pair]:
  """One training set out of several."""
  return [pair for source in sources for pair in source]


def _lines(path: str):
  with (gzip.open if path.endswith('.gz') else open)(path, 'rt', encoding='utf-8') as f:
    for line in f:
      yield line.rstrip('\n')
