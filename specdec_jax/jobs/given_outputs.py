"""What the examples of a job give of their outputs, as token ids: a prefix that the decoder begins with, targets."""

from collections.abc import Sequence

from specdec_jax.data.examples import Example
from specdec_jax.data.padding import padded_length
from specdec_jax.data.target_texts import TextOrIds
from specdec_jax.errors import InputError
from specdec_jax.model import Model


def prefix_tokens(model: Model, example: Example) -> list[int]:
  """The ids of an example's prefix, without a start token; none where it has no prefix.

  Raises:
    InputError: ids that the model has not, one that ends a text, or a model that takes no prefix.
  """
  prefix = example.target_prefix
  if prefix is None:
    return []
  whose = f"Example {example.id}'s target prefix"
  if model.config.decoder_only:
    raise InputError(f'Example {example.id} has a target prefix, and the model is decoder-only: what it goes on from '
                     'is its prompt.')
  ids = encoded(model, prefix, whose)
  end = next((i for i in ids if i in model.eos_ids), None)
  if end is not None:
    raise InputError(f'{whose} has the token id {end}, which ends a text; a prefix goes on, so leave it out.')
  return ids


def encoded(model: Model, given: TextOrIds, whose: str) -> list[int]:
  """The ids of a text, or those that are given.

  Args:
    model: that reads them.
    given: a text or ids.
    whose: what a message begins with.

  Raises:
    InputError: ids that the model has not, or a text where it has no vocabulary.
  """
  if not isinstance(given, str):
    check_known(model, given, whose)
    return list(given)
  if model.vocabulary is None:
    raise InputError(f'{whose} of text, and the model has no vocabulary; give its ids, as a list.')
  return model.vocabulary.encode(given)


def check_known(model: Model, ids: Sequence[int], whose: str) -> None:
  """InputError where the model has not all of the ids; the message begins with `whose`."""
  beyond = next((i for i in ids if i >= model.num_tokens), None)
  if beyond is not None:
    raise InputError(f'{whose} has the token id {beyond}, but the model has ids 0 to {model.num_tokens - 1}; were they '
                     'made with another vocabulary?')


class LongestPrefix:
  """Called with one example after another; those that cannot be decoded do not count.

  Attributes:
    padded: tokens of the longest prefix, padded to one of few lengths; 0 where there is none.
  """

  def __init__(self, model: Model):
    self._model, self.padded = model, 0

  def __call__(self, example: Example) -> None:
    try:
      length = len(prefix_tokens(self._model, example))
    except InputError:
      return
    self.padded = max(self.padded, padded_length(length) if length else 0)
