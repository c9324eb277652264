"""Names of T5X's infer.gin that mean nothing here, and what takes their place."""

_OURS = {
    'CHECKPOINT_PATH': "is TARGET here, a model directory (bring the checkpoint in with `specdec_jax import "
                       '--format=t5x`)',
    'INFER_OUTPUT_DIR': 'is OUTPUT_DIR here, or --output_dir=DIR',
    'BATCH_SIZE': 'is decode.batch_size here',
    'TASK_FEATURE_LENGTHS': "is decode.max_input_len (T5X's 'inputs') and decode.max_decode_len (its 'targets') here",
}


def hint(name: str) -> str | None:
  """A sentence about a setting that T5X has under this name; None for any other name."""
  return f"T5X's {name} {_OURS[name]}." if name in _OURS else None
