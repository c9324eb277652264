"""Quality of texts against references, as T5 reports it: BLEU and ROUGE, 0 to 100."""

from collections.abc import Sequence

from specdec_jax.errors import InputError


def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
  """sacrebleu's corpus BLEU with international tokenization, as T5 evaluates WMT."""
  import sacrebleu
  return sacrebleu.corpus_bleu(list(texts), [list(references)], tokenize='intl').score


def rouge(kind: str, texts: Sequence[str], references: Sequence[str]) -> float:
  """Mean F1 of rouge_score without a stemmer, a line a sentence, as T5 evaluates CNN/DM.

  T5 reports the middle of a bootstrap, which the mean estimates without its randomness.
  """
  from rouge_score import rouge_scorer
  scorer = rouge_scorer.RougeScorer([kind])
  lines = lambda text: text.replace(' . ', ' .\n')
  scores = [scorer.score(lines(r), lines(t))[kind].fmeasure for t, r in zip(texts, references)]
  return 100 * sum(scores) / len(scores)


METRICS = ('bleu', 'rouge1', 'rouge2', 'rougeLsum')


def score(name: str, texts: Sequence[str], references: Sequence[str]) -> float:
  """One of METRICS over whole sets of texts."""
  return bleu(texts, references) if name == 'bleu' else rouge(name, texts, references)


def check(names: Sequence[str], examples) -> None:
  """ValueError for a metric that is none, or examples without a reference."""
  unknown = [name for name in names if name not in METRICS]
  if unknown:
    raise InputError(f"No metric {', '.join(map(repr, unknown))}; there are {', '.join(METRICS)}.")
  missing = [e.id for e in examples if e.reference is None]
  if names and missing:
    raise InputError(f"{', '.join(names)} needs references, but {len(missing)} of {len(examples)} "
                     f'examples have none, first {missing[0]}; name their field with '
                     'read_examples.reference_field, or set metrics = ().')
