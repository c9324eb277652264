"""How a draft comes to T5X's jitted inference step: as a collection of flax variables beside the target's weights.

T5X hands such variables, `flax_mutables` of the train state, to the step as an argument, partitioned by their axes. The
model itself has none, so that training and its checkpoints stay as they are.
"""

from typing import Any

import flax
from t5x import checkpoints, utils

from specdec_jax.integrations.t5x.draft import Draft


class TrainStateInitializer(utils.TrainStateInitializer):
  """As T5X's, of a state that holds the draft too."""

  def __init__(self, optimizer_def: Any, init_fn: Any, input_shapes: Any, partitioner: Any, input_types: Any = None, *,
               draft: Draft):
    both = _Both(init_fn, draft)
    super().__init__(optimizer_def=optimizer_def, init_fn=both.get_initial_variables, input_shapes=input_shapes,
                     partitioner=partitioner, input_types=input_types)


class _Both:
  """The variables of a model and its draft; T5X looks for the model's `module` on what the function is bound to."""

  def __init__(self, init_fn: Any, draft: Draft):
    self._init_fn, self._draft = init_fn, draft
    self.module = getattr(getattr(init_fn, '__self__', None), 'module', None)

  def get_initial_variables(self, rng: Any, input_shapes: Any, input_types: Any = None) -> Any:
    made = flax.core.unfreeze(self._init_fn(rng=rng, input_shapes=input_shapes, input_types=input_types))
    return flax.core.freeze({**made, **self._draft.variables(rng)})


class CheckpointManager(checkpoints.OrbaxCheckpointManagerInterface):
  """As T5X's: restores the target from its checkpoint, and the draft from its own."""

  def __init__(self, directory: str, train_state: Any, partitioner: Any, *args: Any, draft: Draft, **kwargs: Any):
    of_target = train_state.replace(flax_mutables=flax.core.freeze({}), flax_mutables_axes=None)
    super().__init__(directory, of_target, partitioner, *args, **kwargs)
    self._draft = draft

  def restore(self, *args: Any, **kwargs: Any) -> Any:
    state = super().restore(*args, **kwargs)
    return state.replace_flax_mutables(self._draft.restore(self._partitioner))
