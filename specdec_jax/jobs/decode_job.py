"""A decode job: the models, the method and the inputs' shapes, which decoding and compiling ahead share."""

import contextlib
import dataclasses
from collections.abc import Iterable

import jax

from specdec_jax import stopping
from specdec_jax.data.examples import Example, check_ids
from specdec_jax.errors import RunFailed
from specdec_jax.jobs import claims, compilations, fingerprint, output, sharing, work
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.jobs.predictions import FAILED, Predictions
from specdec_jax.jobs.progress import Progress
from specdec_jax.model import Model
from specdec_jax.notes import note


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeJob:
  """What a job decodes with.

  Attributes:
    target: whose distribution the texts follow.
    method: with a drafter or without.
    options: of the inputs; they give the shapes that are compiled.
  """

  target: Model
  method: Method
  options: InputOptions

  def compile(self) -> dict[str, int]:
    """Compiles a program for each bucket of inputs, by decoding a batch of its shape once, and says so.

    Returns:
      How many programs were 'compiled', and how many were 'found' in jax's persistent cache.
    """
    lengths = self.options.lengths
    with compilations.counted() as counts, Progress(len(lengths), self.method.name, 'shape') as progress:
      for length in lengths:
        with progress.compiling(f'for inputs of {length} tokens'):
          self.method(self.target, self.options.any_batch(self.target, length))
        progress.add(1)
    found = {'compiled': counts['cache_misses'], 'found': counts['cache_hits']}
    print(f"Batches of {self.options.batch_size} inputs of {', '.join(map(str, lengths))} tokens: "
          f"{found['compiled']} programs compiled, {found['found']} found in {jax.config.jax_compilation_cache_dir}.")
    return found

  def decode(self, examples: Iterable[Example], output_dir: str) -> dict:
    """Decodes examples into `output_dir`/predictions.jsonl; see the decode run.

    Returns:
      The summary; {} but on process 0.
    """
    examples = list(examples)
    check_ids(examples)
    digests = {'inputs': fingerprint.of_examples(examples), 'target': fingerprint.of_weights(self.target),
               'drafter': fingerprint.of_weights(self.method.drafter)}
    claims.tie_contents(output_dir, digests)
    inputs = self.options.encode(self.target, examples)
    predictions = Predictions(output_dir, [e.id for e in examples])
    done, failed = sharing.earlier(predictions, output_dir, digests)
    if done:
      note(f'{len(done)} of {len(examples)} examples were decoded before.')
    fresh = [i for i in range(len(examples)) if i not in done | failed]
    todo = [batch for indices in (fresh, sorted(failed))  # what failed before goes last
            for batch in self.options.batches(inputs, indices)]
    going_on = lambda: (f'{predictions.num_done} examples are in {predictions.partial_path}, and the same command '
                        'goes on with the rest')
    with contextlib.closing(predictions), stopping.hint(going_on):
      timing = sharing.merge(predictions, work.decode_all(
          self.method.name, self.method, self.target, inputs, predictions, sharing.share(todo)))
      if timing is None:  # process 0 writes the rest
        return {}
      predictions.finish()
    summary = {'method': self.method.name, 'examples': len(examples), 'cut_inputs': inputs.cut,
               **work.totals(predictions), **timing, 'predictions': predictions.path}
    output.write_json(output_dir, 'summary.json', summary)
    print(f"{summary['examples']} examples, {summary['tokens']} tokens in {predictions.path}"
          f" ({self.method.name}; {timing['tokens_per_second'] or 0:.1f} tokens/s now)")
    if predictions.failed:
      raise RunFailed(f'{len(predictions.failed)} of {len(examples)} examples failed '
                      f'(status {FAILED} in {predictions.path}); run again to retry them.')
    return summary
