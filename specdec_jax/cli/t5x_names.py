"""Names of T5X's infer.gin that mean nothing here, and what takes their place."""

_OURS = {
    'CHECKPOINT_PATH': "is TARGET here, a model directory (bring the checkpoint in with `specdec_jax import "
                       '--format=t5x`)',
    'INFER_OUTPUT_DIR': 'is OUTPUT_DIR here, or --output_dir=DIR',
    'BATCH_SIZE': 'is decode.batch_size here',
    'TASK_FEATURE_LENGTHS': "is decode.max_input_len (T5X's 'inputs') and decode.max_decode_len (its 'targets') here",
    'num_decodes': 'is decode.num_samples here, --num_samples of the subcommand',
    'return_all_decodes': 'needs no setting here: with decode.num_samples every prediction holds all samples, sorted '
                          'by score with decode.best_first = True',
    'prompt_with_targets': "is a field target_prefix of the examples here (of a seqio task: "
                           "task_examples.target_prefix = 'targets')",
}


def sentence(name: str) -> str:
  """About a setting that T5X has under this name, with a space before it; '' for any other name."""
  return f" T5X's {name} {_OURS[name]}." if name in _OURS else ''
