"""A decode job: the models, the method and the inputs' shapes, which decoding and compiling ahead share."""

import dataclasses
from collections.abc import Iterable

import jax

from specdec_jax.data.examples import Example
from specdec_jax.decoding.running import Running
from specdec_jax.errors import SettingError
from specdec_jax.files import mirror
from specdec_jax.jobs import choosing, claims, compilations, decoded, fingerprint, output, work
from specdec_jax.jobs.carrying_out import carry_out, check_failed, surveyed
from specdec_jax.jobs.given_outputs import LongestPrefix
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.jobs.progress import Progress
from specdec_jax.model import Model


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeJob:
  """What a job decodes with.

  Attributes:
    target: whose distribution the texts follow.
    method: with a drafter or without.
    options: of the inputs; they give the shapes that are compiled.
    best_first: of several samples of an input, whether the one of the highest score comes first in its line.
    longest_prefix: make room for the longest target prefix among the examples, and not for what the options say.
  """

  target: Model
  method: Method
  options: InputOptions
  best_first: bool = False
  longest_prefix: bool = False

  def __post_init__(self):
    if self.best_first and self.method.num_samples == 1:
      raise SettingError('best_first = True would be ignored: there is one sample of each input; set num_samples, or '
                         'leave it out.')

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
          loop.compile(*self.options.any_batch(self.target, length).arrays)
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
    longest = LongestPrefix(self.target)
    examples, ids, digest = surveyed(examples, longest)
    digests = {'inputs': digest, 'target': fingerprint.of_weights(self.target),
               'drafter': fingerprint.of_weights(self.method.drafter)}
    claims.tie_contents(output_dir, digests)
    options = self.options
    if self.longest_prefix:
      options = dataclasses.replace(options, max_target_prefix_len=longest.padded)
    method = choosing.settled(self.target, self.method, options, examples, output_dir)
    job = dataclasses.replace(self, method=method, options=options)
    worker = lambda predictions, progress: work.Work(
        job._start, self.target, options, predictions, progress, self.best_first)
    found = carry_out(output_dir, examples, ids, digests, self.target, options, method.name, worker)
    if found is None:
      return {}
    predictions, timing = found
    samples = method.num_samples
    summary = {'method': method.name, 'examples': len(ids), **({'num_samples': samples} if samples > 1 else {}),
               **decoded.totals(predictions), **timing, 'predictions': mirror.shown(predictions.path)}
    output.write_json(output_dir, 'summary.json', summary)
    of_each = f' of {samples} samples each' if samples > 1 else ''
    print(f"{summary['examples']} examples{of_each}, {summary['tokens']} tokens in {summary['predictions']}"
          f" ({method.name}; {timing['tokens_per_second'] or 0:.1f} tokens/s now)")
    check_failed(predictions)
    return summary

  def _start(self, length: int) -> Running:
    return self.method.running(self.target, self.options.batch_size, length,
                               prefix_length=self.options.max_target_prefix_len)
