"""The score run: how likely a model finds given outputs."""

from collections.abc import Iterable, Sequence

import gin

from specdec_jax import arguments
from specdec_jax.data.examples import Example
from specdec_jax.jobs import inputs, score_inputs, score_job, settings
from specdec_jax.model import Model


@arguments.checked(target=settings.MODEL, examples=arguments.iterable, **inputs.CHECKS, **score_job.CHECKS)
def score(output_dir: str, target: Model = gin.REQUIRED, examples: Iterable[Example] = gin.REQUIRED,
          normalization: str = 'none', per_token: bool = False, add_eos: bool = True, batch_size: int = 1,
          max_input_len: int = 512, max_target_len: int = 512, long_inputs: str = 'refuse', prefix: str = '',
          buckets: Sequence[int] = ()) -> dict:
  """Scores the targets of all examples into `output_dir`/predictions.jsonl, in input order.

  A line has id, input, targets, scores (log-likelihood in nats of each target under the model at temperature 1, the
  scores of decodes), lengths (tokens of each), best (place of the highest score, of several) and status; label and
  correct where the example says which target is right; log_probs with per_token. The targets of an example share one
  pass of the encoder. A job that was stopped goes on, and failures are marked, as in the decode run. summary.json has
  log_likelihood_per_token over all targets, and accuracy over the examples with a label.

  Args:
    output_dir: claimed by `launch.main`.
    target: the model.
    examples: of `data.examples.Example`, with targets or a reference.
    normalization: of scores: 'none', or 'tokens', which divides each by its target's tokens, EOS counted.
    per_token: write the log-probability of each token too.
    add_eos, max_target_len: see `jobs.score_inputs.ScoreOptions`.
    batch_size, max_input_len, long_inputs, prefix, buckets: see `jobs.inputs.InputOptions`.

  Returns:
    The summary; {} but on process 0.
  """
  options = score_inputs.ScoreOptions(
      batch_size=batch_size, max_input_len=max_input_len, long_inputs=long_inputs, prefix=prefix, buckets=buckets,
      max_target_len=max_target_len, add_eos=add_eos)
  job = score_job.ScoreJob(model=target, options=options, normalization=normalization, per_token=per_token)
  return job.score(examples, output_dir)
