"""The decode run: every input to one line of predictions."""

from collections.abc import Callable, Iterable, Sequence

import gin

from specdec_jax import arguments
from specdec_jax.data.examples import Example
from specdec_jax.drafters.interface import Drafter
from specdec_jax.jobs import choosing, settings
from specdec_jax.jobs.decode_job import DecodeJob
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.model import Model
from specdec_jax.sampling import Sampling
from specdec_jax.tree import Tree


@arguments.checked(**settings.OF_INPUTS, **{**settings.OF_METHOD, **settings.AUTOMATIC}, **settings.OF_SAMPLES,
                   compile_only=arguments.flag)
def decode(output_dir: str, target: Model = gin.REQUIRED, examples: Iterable[Example] = gin.REQUIRED,
           drafter: Drafter | Model | None = None, gamma: int | str | None = None,
           tree: Tree | int | str | None = None, lenience: float | None = None, verification: str | None = None,
           sampling: Sampling = Sampling(), logits_processors: Sequence[Callable] = (), seed: int = 0,
           batch_size: int = 1, max_decode_len: int = 128, max_input_len: int = 512,
           long_inputs: str = 'refuse', prefix: str = '', buckets: Sequence[int] = (),
           num_samples: int = 1, best_first: bool = False, max_target_prefix_len: int | None = None,
           compile_only: bool = False) -> dict:
  """Decodes all examples into `output_dir`/predictions.jsonl, in input order.

  A line has id, input, text, tokens, scores (log-probability of the text under the
  target, nats), status, statistics, and the reference where there is one. Lines are
  kept as they come in predictions.partial.jsonl; a run that stopped is continued by
  the same command, an example that fails is marked FAILED and the rest goes on. Summary
  in summary.json. Of several processes each decodes a part, and process 0 writes these.

  Args:
    output_dir: claimed by `launch.main`.
    target: whose distribution the text follows.
    examples: of `data.examples.Example`.
    drafter, gamma, tree, lenience, verification, sampling, logits_processors, seed, max_decode_len: see
      `decoding.speculative_decode`; without a drafter, plain decoding. gamma or tree 'auto' is chosen by
      measurements on the first inputs, see `jobs.choosing`.
    batch_size, max_input_len, long_inputs, prefix, buckets: see `jobs.inputs.InputOptions`.
    num_samples: texts of each input. Of several a line has a list `samples`, each with sample (its number; 0 is what
      one sample gives), text, tokens, scores, status and statistics.
    best_first: sort that list by scores, the highest first.
    max_target_prefix_len: most tokens of an example's target_prefix, which there is room for; by default that of the
      longest.
    compile_only: compile the job's programs and decode nothing, as the precompile run does.

  Returns:
    The summary; {} but on process 0. With compile_only, of `DecodeJob.compile`.
  """
  job = DecodeJob(
      target=target,
      method=Method(drafter=drafter, **choosing.asked(gamma, tree), lenience=lenience, verification=verification,
                    sampling=sampling, seed=seed, max_decode_len=max_decode_len,
                    logits_processors=logits_processors, num_samples=num_samples),
      options=InputOptions(batch_size=batch_size, max_input_len=max_input_len, long_inputs=long_inputs,
                           prefix=prefix, buckets=buckets, max_target_prefix_len=max_target_prefix_len or 0),
      best_first=best_first, longest_prefix=max_target_prefix_len is None)
  return job.compile() if compile_only else job.decode(examples, output_dir)
