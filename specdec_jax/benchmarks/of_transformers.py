"""transformers' own greedy decode as a method to time: `generate`, alone or assisted by a draft."""

import numpy as np

from specdec_jax.benchmarks.counted import as_result
from specdec_jax.checkpoints.huggingface.export import to_transformers
from specdec_jax.errors import SettingError
from specdec_jax.results import Result


class TransformersMethod:
  """Called and counted as a `jobs.methods.Method`; decoder-only models and drafts at batch 1 only.

  Attributes:
    name: shown in tables.
  """

  def __init__(self, target, max_decode_len: int, draft=None, gamma: int | None = None):
    """With a `draft`, a `Model`, `generate(assistant_model=...)` with gamma tokens in every iteration."""
    self._target = to_transformers(target)
    self._options = {'max_new_tokens': max_decode_len, 'do_sample': False, 'num_beams': 1}
    self._draft = None
    self.name = 'transformers, generate'
    if draft is not None:
      self._draft = to_transformers(draft)
      # Its defaults change the number of tokens as it goes and stop a draft that is unsure.
      self._draft.generation_config.num_assistant_tokens = gamma
      self._draft.generation_config.num_assistant_tokens_schedule = 'constant'
      self._draft.generation_config.assistant_confidence_threshold = 0.0
      self._options['assistant_model'] = self._draft
      self.name = f'transformers, assisted, gamma {gamma}'
    self._max_decode_len, self._calls, self._drafted = max_decode_len, 0, 0
    self._target.register_forward_pre_hook(self._count_target)
    if self._draft is not None:
      self._draft.register_forward_pre_hook(self._count_draft)

  def _count_target(self, *_):
    self._calls += 1

  def _count_draft(self, *_):
    self._drafted += 1

  def __call__(self, target, batch) -> Result:
    """Decodes a `batching.Batch`; tokens are on the host on both sides."""
    import torch
    decoder_only = target.config.decoder_only
    if len(batch.tokens) != 1 and (decoder_only or self._draft is not None):
      raise SettingError(f'{self.name} is compared at batch 1, and this batch has {len(batch.tokens)} rows.')
    real = np.ones_like(batch.tokens, bool) if decoder_only else batch.tokens != target.config.pad_id
    longest = batch.lengths[0] if decoder_only else np.flatnonzero(real.any(0))[-1] + 1
    inputs = torch.from_numpy(batch.tokens[:, :longest].astype(np.int64))
    self._calls = self._drafted = 0
    with torch.no_grad():
      out = self._target.generate(inputs, attention_mask=torch.from_numpy(real[:, :longest].astype(np.int64)),
                                  **self._options)
    text = out[:, inputs.shape[1] if decoder_only else 1:].numpy()
    result = as_result(text, target.eos_ids, self._max_decode_len)
    if len(batch.tokens) > 1:
      return result
    counts = lambda n: np.array([n], np.int32)
    emitted = int(result.lengths[0])
    return result.replace(stats=result.stats.replace(
        target_calls=counts(self._calls), drafted=counts(self._drafted),
        accepted=counts(emitted - self._calls if self._draft is not None else 0)))
