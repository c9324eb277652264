"""A decode job: the models, the method and the inputs' shapes, which decoding and compiling ahead share."""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable

import jax

from specdec_jax import stopping
from specdec_jax.data.examples import Example
from specdec_jax.decoding.running import Running
from specdec_jax.errors import InputError, RunFailed, SettingError
from specdec_jax.files import mirror
from specdec_jax.jobs import choosing, claims, compilations, fingerprint, output, sharing, stream, work
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
    if self.method.auto:
      raise SettingError(f"{self.method.auto} = 'auto' is chosen on the first inputs, which compiling ahead does not "
                         'read; name one, such as the one that a decode has chosen and noted in run.json.')
    lengths, loops = self.options.lengths, self.options.loop_lengths
    with compilations.counted() as counts, Progress(len(lengths), self.method.name, 'shape') as progress:
      loop = None
      for length in lengths:
        with progress.compiling(f'for inputs of {length} tokens'):
          fitting = min(n for n in loops if n >= length)
          if loop is None or loop.length != fitting:
            loop = self._start(fitting)
          batch = self.options.any_batch(self.target, length)
          loop.compile(batch.tokens, batch.ids, batch.lengths)
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
    if iter(examples) is examples:  # it can be gone through only once
      examples = list(examples)
    ids, digest = stream.survey(examples)
    if not len(ids):
      raise InputError('There are no examples to decode: the input is empty.')
    digests = {'inputs': digest, 'target': fingerprint.of_weights(self.target),
               'drafter': fingerprint.of_weights(self.method.drafter)}
    claims.tie_contents(output_dir, digests)
    job = dataclasses.replace(self, method=choosing.settled(
        self.target, self.method, self.options, examples, output_dir))
    predictions = Predictions(output_dir, ids)
    done, failed = sharing.earlier(predictions, output_dir, digests)
    if done.any():
      note(f'{done.sum()} of {len(ids)} examples were decoded before.')
    fresh, again = sharing.share(~(done | failed)), sharing.share(failed)  # what failed before goes last
    read = itertools.chain.from_iterable(
        stream.windows(examples, wanted, self.target, self.options) for wanted in (fresh, again) if wanted.any())
    going_on = lambda: (f'{predictions.num_done} examples are in {mirror.shown(predictions.partial_path)}, and the '
                        'same command goes on with the rest')
    with contextlib.closing(predictions), stopping.hint(going_on):
      with Progress(int((fresh | again).sum()), job.method.name) as progress, stream.Ahead(read) as windows:
        decoding = work.Work(job._start, self.target, self.options, predictions, progress)
        decoding.do(windows)
      timing = sharing.merge(predictions, decoding.timing)
      if timing is None:  # process 0 writes the rest
        return {}
      predictions.finish()
    summary = {'method': job.method.name, 'examples': len(ids), **work.totals(predictions), **timing,
               'predictions': mirror.shown(predictions.path)}
    output.write_json(output_dir, 'summary.json', summary)
    print(f"{summary['examples']} examples, {summary['tokens']} tokens in {summary['predictions']}"
          f" ({job.method.name}; {timing['tokens_per_second'] or 0:.1f} tokens/s now)")
    if predictions.failed.any():
      raise RunFailed(f'{predictions.failed.sum()} of {len(ids)} examples failed '
                      f'(status {FAILED} in {summary["predictions"]}); run again to retry them.')
    return summary

  def _start(self, length: int) -> Running:
    return self.method.running(self.target, self.options.batch_size, length)
