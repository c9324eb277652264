"""What every format's writer is given: a model whose leaves are read one at a time."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator

import numpy as np

from specdec_jax.checkpoints.description import Config, Tokenizer
from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.checkpoints.storage import first_line
from specdec_jax.errors import OutputError, UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export:
  """A model on its way out.

  Attributes:
    config: of the model.
    vocabulary: None where it is not known.
    leaves: shape and dtype of every parameter, as they are written, by T5X's path.
    read: a leaf by its path; cheapest in the order of `leaves`, each once.
    place: the path under which what is written will stand.
    step: of training.
  """

  config: Config
  vocabulary: Tokenizer | None
  leaves: dict[str, Leaf]
  read: Callable[[str], np.ndarray]
  place: str
  step: int


@contextlib.contextmanager
def writing(path: str | os.PathLike) -> Iterator[None]:
  """OutputError for whatever a disk or TensorStore raises."""
  try:
    yield
  except UserError:
    raise
  except Exception as e:
    raise OutputError(f"'{os.fspath(path)}' cannot be written ({first_line(e)}).") from e
