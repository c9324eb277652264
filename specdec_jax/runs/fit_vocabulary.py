"""The fit_vocabulary run: texts to the tokenizer.json of a decoder-only model."""

from collections.abc import Iterable

import gin
import numpy as np

from specdec_jax import arguments
from specdec_jax.data.examples import texts_of
from specdec_jax.data.tokenizers_fitting import fit_tokenizer
from specdec_jax.jobs import output


@arguments.checked(
    examples=arguments.iterable, field=arguments.text_of(('reference', 'text')),
    kind=arguments.text_of(('wordpiece', 'bpe')), size=arguments.at_least(4), lowercase=arguments.flag)
def fit_vocabulary(output_dir: str, examples: Iterable = gin.REQUIRED, field: str = 'text',
                   kind: str = 'wordpiece', size: int = 8192, lowercase: bool = False) -> dict:
  """Writes `output_dir`/tokenizer.json.

  Args:
    output_dir: claimed by `launch.main`.
    examples: of `data.examples.Example`.
    field: 'text' (a file's texts) or 'reference' (a task's targets).
    kind, size, lowercase: see `data.tokenizers_fitting.fit_tokenizer`.

  Returns:
    The report, also in `output_dir`/report.json.
  """
  texts = texts_of(examples, field, 'fit_vocabulary')
  tokenizer = fit_tokenizer(texts, size, kind, lowercase)
  path = output.write(output_dir, 'tokenizer.json', tokenizer.to_str())
  lengths = [len(encoding.ids) for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
  report = {'kind': kind, 'pieces': tokenizer.get_vocab_size(), 'texts': len(texts),
            'tokens': int(np.sum(lengths)), 'characters': sum(map(len, texts)), 'path': path}
  output.write_json(output_dir, 'report.json', report)
  print(f"{kind}, {report['pieces']} pieces: {len(texts)} texts are {report['tokens']} tokens, "
        f"{report['characters'] / report['tokens']:.2f} characters each: {path}")
  return report
