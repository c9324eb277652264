import pytest
import sacrebleu

from specdec_jax.data import metrics
from specdec_jax.data.examples import Example

TEXTS = ['the cat sat on the mat .', 'a dog barks loudly today']
REFERENCES = ['the cat sat on a mat .', 'a dog barks today']


def test_bleu_is_the_corpus_bleu_that_t5_reports():
  expected = sacrebleu.BLEU(tokenize='intl').corpus_score(TEXTS, [REFERENCES]).score
  assert metrics.score('bleu', TEXTS, REFERENCES) == pytest.approx(expected)
  assert metrics.bleu(TEXTS, TEXTS) == pytest.approx(100)
  quoted = ['Die Datei „a b c“ öffnen'], ['Die Datei „a b c d“ öffnen']
  ours, theirs = metrics.bleu(*quoted), sacrebleu.BLEU(tokenize='13a').corpus_score(
      quoted[0], [quoted[1]]).score
  assert ours > theirs + 5


def test_rouge_is_the_mean_f1():
  # Words in common: 5 of 6 and 6 (the second 'the' is left over), then 4 of 5 and 4.
  assert metrics.score('rouge1', TEXTS, REFERENCES) == pytest.approx(100 * (5 / 6 + 8 / 9) / 2)
  assert metrics.score('rouge2', ['a b c'], ['a b d']) == pytest.approx(50)
  assert metrics.score('rouge1', ['barking'], ['barks']) == 0  # nothing is stemmed


def test_rouge_lsum_takes_lines_and_spaced_full_stops_as_sentences():
  swapped = metrics.score('rougeLsum', ['c d . a b'], ['a b . c d'])
  assert swapped == pytest.approx(100)
  assert metrics.score('rougeLsum', ['c d\na b'], ['a b\nc d']) == pytest.approx(100)
  assert metrics.score('rougeLsum', ['c d a b'], ['a b c d']) == pytest.approx(50)


def test_unknown_metrics_and_missing_references_are_refused():
  examples = [Example('one', 'text', 'reference'), Example('two', 'text')]
  metrics.check((), examples)
  metrics.check(('bleu', 'rouge2'), examples[:1])
  with pytest.raises(ValueError, match="No metric 'rougeL'; there are bleu"):
    metrics.check(('rougeL',), examples)
  with pytest.raises(ValueError, match='1 of 2 examples have none, first two; .*reference_field'):
    metrics.check(('rougeLsum',), examples)
