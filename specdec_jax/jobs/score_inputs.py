"""The inputs of a score job: what each example gives to be scored, as token ids."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from specdec_jax import arguments
from specdec_jax.data.examples import Example
from specdec_jax.data.padding import padded_length
from specdec_jax.errors import InputError
from specdec_jax.jobs import given_outputs
from specdec_jax.jobs.inputs import InputOptions, Inputs
from specdec_jax.model import Model

# Of the settings of `ScoreOptions` that `InputOptions` has not.
CHECKS = {'max_target_len': arguments.at_least(1), 'add_eos': arguments.flag}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreOptions(InputOptions):
  """As `InputOptions`, with the targets that each example gives; where it gives none, its reference.

  Attributes:
    max_target_len: longest target in tokens; an example with a longer one is refused.
    add_eos: whether EOS follows a target that is text, and counts; one that is token ids stays as it is.
  """

  max_target_len: int = 512
  add_eos: bool = True

  def encode_what_fits(self, model: Model, examples: Sequence[Example]) -> tuple[Inputs, dict[int, str]]:
    """As that of `InputOptions`."""
    inputs, refused = super().encode_what_fits(model, examples)
    targets: list[list[list[int]]] = []
    for i, example in enumerate(examples):
      targets.append([])
      try:
        targets[i] = [self._target(model, example.id, target) for target in targets_of(example)]
      except InputError as e:
        refused.setdefault(i, str(e))
    return dataclasses.replace(inputs, targets=targets), refused

  def _target(self, model: Model, example_id: int | str, target: Any) -> list[int]:
    ids = given_outputs.encoded(model, target, f"Example {example_id}'s target")
    if self.add_eos and isinstance(target, str):
      ids = [*ids, model.eos_id]
    if not 0 < len(ids) <= self.max_target_len:
      raise InputError(f'Example {example_id} has a target of {len(ids)} tokens; it must have 1 to max_target_len = '
                       f'{self.max_target_len}.')
    return ids


def targets_of(example: Example) -> Sequence[Any]:
  """What of an example is scored; InputError where it gives nothing."""
  if example.targets:
    return example.targets
  if example.reference is None:
    raise InputError(f'Example {example.id} has no target to score; name the field with read_examples.targets_field '
                     '(a text or a list of them) or read_examples.reference_field.')
  return [example.reference]


def padded(rows: Sequence[Sequence[Sequence[int]]]) -> tuple[np.ndarray, np.ndarray]:
  """Targets of inputs as int32 [B, N, T] and their lengths [B, N]; N is a power of two, so that programs are few."""
  most = 1 << (max(map(len, rows)) - 1).bit_length()
  longest = padded_length(max(len(ids) for row in rows for ids in row))
  targets, lengths = np.zeros((len(rows), most, longest), np.int32), np.zeros((len(rows), most), np.int32)
  for i, row in enumerate(rows):
    for j, ids in enumerate(row):
      targets[i, j, :len(ids)], lengths[i, j] = ids, len(ids)
  return targets, lengths
