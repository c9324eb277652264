"""The fit_ngram run: target texts to a unigram or bigram table."""

import os
from collections.abc import Iterable

import gin
import numpy as np

from specdec_jax import arguments
from specdec_jax.checkpoints.ngram_tables import save_ngram
from specdec_jax.data.examples import texts_of
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.drafters.ngram import NGramDrafter
from specdec_jax.jobs import output, settings


@arguments.checked(
    vocabulary=settings.VOCABULARY, examples=arguments.iterable, field=arguments.text_of(('reference', 'text')),
    order=arguments.between(1, 2), successors=arguments.at_least(1))
def fit_ngram(output_dir: str, vocabulary: Tokenizer = gin.REQUIRED,
              examples: Iterable = gin.REQUIRED, field: str = 'reference', order: int = 2,
              successors: int = 32) -> dict:
  """Counts the tokens of texts into `output_dir`/ngram, for `load_ngram`.

  Args:
    output_dir: claimed by `launch.main`.
    vocabulary: the target's.
    examples: of `data.examples.Example`.
    field: 'reference' counts what a person would have written, 'text' the inputs
      themselves (a plain text file has only those).
    order: 1 for a unigram table, 2 for a bigram table.
    successors: most successors kept of a token.

  Returns:
    The report, also in `output_dir`/report.json.
  """
  texts = texts_of(examples, field, 'fit_ngram')
  rows = (vocabulary.encode(text) + [vocabulary.eos_id] for text in texts)
  table = NGramDrafter.fit(rows, order=order, successors=successors, vocabulary=vocabulary,
                           start_id=vocabulary.context_id)
  path = os.path.join(output_dir, 'ngram')
  save_ngram(table, path, overwrite=True)
  tokens, pairs = table.num_counted, np.asarray(table.counts, np.int64).sum()
  report = {'drafter': table.name, 'texts': len(texts), 'tokens': tokens,
            'pairs_kept': float(pairs / tokens) if order == 2 else None,
            'bytes': sum(f.stat().st_size for f in os.scandir(path)), 'path': path}
  output.write_json(output_dir, 'report.json', report)
  kept = f', {report["pairs_kept"]:.1%} of the pairs kept' if order == 2 else ''
  print(f'{table.name} of {len(texts)} texts, {tokens} tokens{kept}: {path}, '
        f'{report["bytes"]} bytes.')
  return report
