"""Times T5X's own inference function with speculation and without, on the same checkpoints and inputs.

  python scripts/benchmark_t5x_infer.py --target=embedded:ende/target --draft=embedded:ende/draft \\
      --inputs=embedded:ende/test.tsv.gz --limit=100 --batch_size=1 --repetitions=3

The models are exported to T5X checkpoints, restored and partitioned by T5X, and run by t5x.utils.get_infer_fn as in its
infer.py, in turns; times are medians and hold no compilation. T5X must be importable (pip install -e '.[t5x]'). With
--prompt_tokens=4 each text goes on from the first tokens of its reference, the second column of a TSV file.
"""

import functools
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # works in a clone, too

import numpy as np
from absl import app, flags, logging

from specdec_jax.checkpoints.directory import load_model
from specdec_jax.checkpoints.exporter import export_checkpoint
from specdec_jax.checkpoints.t5x.fields import to_t5x
from specdec_jax.cli import command
from specdec_jax.data.examples import read_examples
from specdec_jax.data.padding import padded_length
from specdec_jax.decoding import inputs
from specdec_jax.errors import RunFailed

_TARGET = flags.DEFINE_string('target', 'embedded:ende/target', 'Model directory.')
_DRAFT = flags.DEFINE_string('draft', 'embedded:ende/draft', 'Model directory.')
_INPUTS = flags.DEFINE_string('inputs', 'embedded:ende/test.tsv.gz', 'Text, TSV or JSONL file.')
_LIMIT = flags.DEFINE_integer('limit', 100, 'Inputs.', lower_bound=1)
_BATCH_SIZE = flags.DEFINE_integer('batch_size', 1, 'Rows of a step.', lower_bound=1)
_GAMMA = flags.DEFINE_integer('gamma', 7, 'Draft tokens an iteration.', lower_bound=1)
_MAX_DECODE_LEN = flags.DEFINE_integer('max_decode_len', 64, 'Most tokens of a text.', lower_bound=1)
_PROMPT_TOKENS = flags.DEFINE_integer(
    'prompt_tokens', 0, 'Tokens of each reference that the text begins with (prompt_with_targets).', lower_bound=0)
_REPETITIONS = flags.DEFINE_integer('repetitions', 3, 'Timed passes of each.', lower_bound=1)


def run() -> None:
  from specdec_jax.integrations import t5x as integration
  logging.set_verbosity(logging.WARNING)  # T5X names every batch
  target = load_model(_TARGET.value)
  examples = read_examples(_INPUTS.value, reference_field=1 if _PROMPT_TOKENS.value else None, limit=_LIMIT.value)
  texts = [example.text for example in examples]
  prompts = [target.encode_rows(example.reference)[0][:-1][:_PROMPT_TOKENS.value] for example in examples
             if example.reference is not None]
  with tempfile.TemporaryDirectory() as folder:
    for name, model in (('target', _TARGET.value), ('draft', _DRAFT.value)):
      export_checkpoint(model, os.path.join(folder, name), 't5x', note=lambda text: None)
    path = lambda name: os.path.join(folder, name, 'checkpoint_0')
    draft = integration.Draft(path('draft'), dtype=target.config.dtype)
    plain = _plain(target)
    models = {'T5X': plain, 'speculative': integration.SpeculativeModel(plain, draft, gamma=_GAMMA.value)}
    batches = _dataset(target, texts, prompts)
    passes = {name: _pass(model, draft if name != 'T5X' else None, path('target'), target, batches)
              for name, model in models.items()}
    found = {name: decode() for name, decode in passes.items()}  # compiles
    times: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(_REPETITIONS.value):
      for name, decode in passes.items():
        begun = time.perf_counter()
        decode()
        times[name].append(time.perf_counter() - begun)
  equal = int((found['T5X'] == found['speculative']).all(1).sum())
  medians = {name: statistics.median(seconds) for name, seconds in times.items()}
  for name, seconds in times.items():
    print(f'{name:12} {medians[name]:8.2f} s   ({", ".join(f"{s:.2f}" for s in seconds)})')
  print(f'ratio        {medians["T5X"] / medians["speculative"]:8.2f}X   equal texts: {equal} of {len(texts)}')
  if equal < len(texts):
    raise RunFailed(f'{len(texts) - equal} of {len(texts)} texts differ.')


def _plain(target):
  """T5X's own model of the target's sizes, greedy."""
  import seqio
  from t5x import decoding, models
  from t5x.examples.t5 import network
  vocabulary = seqio.PassThroughVocabulary(target.num_tokens, eos_id=target.eos_id)
  return models.EncoderDecoderModel(network.Transformer(network.T5Config(**to_t5x(target.config))), vocabulary,
                                    vocabulary, optimizer_def=None, decode_fn=decoding.temperature_sample)


def _dataset(target, texts, prompts):
  """An enumerated data set of what T5X's feature converter makes of the inputs."""
  import tensorflow as tf
  tokens = target.encode(texts)
  tokens = inputs.pad(tokens, padded_length(tokens.shape[1]), 0)
  given = np.zeros((len(texts), _MAX_DECODE_LEN.value), np.int32)
  for row, prompt in zip(given, prompts):
    row[1:len(prompt) + 1] = prompt[:len(row) - 1]
  return tf.data.Dataset.from_tensor_slices(
      {'encoder_input_tokens': tokens, 'decoder_input_tokens': given}).enumerate()


def _pass(model, draft, checkpoint: str, target, batches):
  """Restores a model as T5X's infer.py does; the function decodes all inputs to tokens, int32 [N, L]."""
  import jax
  from t5x import partitioning, utils

  from specdec_jax.integrations import t5x as integration
  partitioner = partitioning.PjitPartitioner(num_partitions=1)
  initializer, manager = utils.TrainStateInitializer, utils.RestoreCheckpointConfig.checkpoint_manager_cls
  if draft is not None:
    initializer = functools.partial(integration.TrainStateInitializer, draft=draft)
    manager = functools.partial(integration.CheckpointManager, draft=draft)
  shapes = {name: (_BATCH_SIZE.value, *spec.shape) for name, spec in batches.element_spec[1].items()}
  made = initializer(optimizer_def=None, init_fn=model.get_initial_variables, input_shapes=shapes,
                     partitioner=partitioner)
  restore = utils.RestoreCheckpointConfig(path=checkpoint, mode='specific', dtype=target.config.dtype, strict=False,
                                          checkpoint_manager_cls=manager)
  state, _ = utils.create_checkpoint_manager_and_restore(made, partitioner, restore, checkpoint, None, use_orbax=True)
  infer = utils.get_infer_fn(infer_step=_step(model), batch_size=_BATCH_SIZE.value,
                             train_state_axes=made.train_state_axes, partitioner=partitioner)
  return lambda: np.stack([tokens for _, tokens in sorted(
      infer(batches, train_state=state, rng=jax.random.PRNGKey(0)), key=lambda item: item[0])])


def _step(model):
  """What T5X's inference function calls; of another signature where the model takes a draft, which T5X looks at."""
  if not _PROMPT_TOKENS.value:
    return model.predict_batch
  call = functools.partial(model.predict_batch_with_aux, prompt_with_targets=True)
  if hasattr(model, 'draft'):
    return lambda params, batch, rng, flax_mutables: call(params, batch, rng, flax_mutables=flax_mutables)[0]
  return lambda params, batch, rng: call(params, batch, rng)[0]


main = command.main(run)

if __name__ == '__main__':
  app.run(main)
