"""Words that reports share."""

from collections.abc import Sequence

from specdec_jax.model import Model
from specdec_jax.sampling import Sampling


def model_name(model: Model) -> str:
  """'T5 (24 encoder and 24 decoder layers of width 4096, bfloat16)'."""
  return model.config.description


def sampling_name(sampling: Sampling) -> str:
  """'greedy', or 'temperature 0.7, top-k 5, top-p 0.9'."""
  name = 'greedy' if sampling.greedy else f'temperature {sampling.temperature:g}'
  name += f', top-k {sampling.top_k}' if sampling.top_k else ''
  return name + (f', top-p {sampling.top_p:g}' if sampling.top_p < 1 else '')


def warning(text: str) -> str:
  """A paragraph of markdown."""
  return f'\n**Warning:** {text}\n'


def unreliable(name: str, reasons: Sequence[str], repeats: str) -> str:
  """What a report says instead of a conclusion; '' without reasons.

  Args:
    name: of what was timed.
    reasons: of `analysis.reliability`.
    repeats: the setting or flag that says how often each batch is timed.
  """
  if not reasons:
    return ''
  return warning(
      f"{name}: these timings are unreliable, and nothing can be concluded from them ({'; '.join(reasons)}). "
      f'Repeat the run while the machine does nothing else, with {repeats} of 3 or more.')
