"""T5X's InteractiveModel with a draft."""

from typing import Any

from t5x import interactive_model

from specdec_jax.integrations.t5x.model import SpeculativeModel
from specdec_jax.integrations.t5x.restoring import TrainStateInitializer


class InteractiveModel(interactive_model.InteractiveModel):
  """As T5X's, with a `SpeculativeModel`: what it predicts is decoded with the draft; training goes on as ever."""

  _train_state: Any
  _train_state_initializer: Any

  def __init__(self, *args: Any, model: SpeculativeModel, **kwargs: Any):
    super().__init__(*args, model=model, **kwargs)
    self._drafted = TrainStateInitializer(
        optimizer_def=model.optimizer_def, init_fn=model.get_initial_variables, input_shapes=self._input_shapes,
        input_types=self._input_types, partitioner=self._partitioner, draft=model.draft)
    self._draft = model.draft.restore(self._partitioner)

  def infer_with_preprocessors(self, *args: Any, **kwargs: Any) -> Any:
    """See T5X's; the draft is in the state as long as it takes."""
    state, initializer = self._train_state, self._train_state_initializer
    self._train_state, self._train_state_initializer = state.replace_flax_mutables(self._draft), self._drafted
    try:
      return super().infer_with_preprocessors(*args, **kwargs)
    finally:
      self._train_state, self._train_state_initializer = state, initializer
