"""Times T5X's own greedy decode against this project's: same weights, inputs and process.

  python scripts/benchmark_t5x.py --target=embedded:ende/target --draft=embedded:ende/draft \\
      --gamma=4 --limit=50

Required: --target, --draft. T5X must be importable: pip install -e '.[t5x]'. T5X decodes as in
its infer.py: `EncoderDecoderModel.predict_batch` with `temperature_sample` at temperature 0 over
its minimal network (t5x/examples/t5/network.py). See docs/benchmarks.md for what is measured.
"""

import functools
import sys

from absl import app
from absl import flags
import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.analysis.tables import markdown
from specdec_jax.analysis.tables import number
from specdec_jax.checkpoints.directory import load_model
from specdec_jax.data.examples import read_examples
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.results import Result, Stats, Status
from specdec_jax.runs import agreement
from specdec_jax.runs import batching
from specdec_jax.runs import report
from specdec_jax.runs.methods import Method
from specdec_jax.runs.progress import Progress
from specdec_jax.runs.timing import time_methods
from specdec_jax.sampling import Sampling

_TARGET = flags.DEFINE_string('target', None, 'Model directory, such as embedded:ende/target.')
_DRAFT = flags.DEFINE_string('draft', None, 'Model directory, such as embedded:ende/draft.')
_GAMMA = flags.DEFINE_multi_integer(
    'gamma', [4], 'Draft length; repeat the flag for several.', lower_bound=1)
_INPUTS = flags.DEFINE_string(
    'inputs', 'embedded:ende/test.tsv.gz', 'Text, TSV or JSON-lines file of inputs.')
_LIMIT = flags.DEFINE_integer(
    'limit', None, 'Use the first so many inputs; all by default.', lower_bound=1)
_REPEATS = flags.DEFINE_integer(
    'repeats', 3, 'Timings of each input, of which the median counts.', lower_bound=1)
_MAX_INPUT_LEN = flags.DEFINE_integer('max_input_len', 256, 'Longer inputs are refused.')
_MAX_DECODE_LEN = flags.DEFINE_integer(
    'max_decode_len', 128, 'Most tokens a text may get.', lower_bound=1)

_FIXED = {'relative_bias_per_layer': False, 'scale_tied_logits': True, 'num_buckets': 32,
          'max_distance': 128, 'layer_norm_epsilon': 1e-6, 'decoder_start_id': 0}


def t5x_config(config) -> dict:
  """Our T5Config as arguments of T5X's; ValueError where its network is built otherwise."""
  other = [f'{name} = {getattr(config, name)} (T5X: {value})' for name, value in _FIXED.items()
           if getattr(config, name) != value]
  if other:
    raise ValueError(f"T5X's minimal network has no {', '.join(other)}; this model can't be "
                     'compared with it.')
  same = ('vocab_size', 'emb_dim', 'num_heads', 'head_dim', 'mlp_dim', 'num_encoder_layers',
          'num_decoder_layers', 'mlp_activations', 'logits_via_embedding')
  return {**{name: getattr(config, name) for name in same}, 'dtype': jnp.dtype(config.dtype),
          'dropout_rate': 0.0}


class T5XMethod:
  """T5X's jitted greedy decode, called and counted as a `runs.methods.Method`."""

  name = 'T5X'

  def __init__(self, target, max_decode_len: int):
    fields = t5x_config(target.config)
    try:
      from t5x import decoding
      from t5x import models
      from t5x.examples.t5 import network
      import seqio
    except ImportError as e:
      raise ImportError(
          f"T5X can't be imported ({e}); install it from github.com/google-research/t5x: "
          "pip install -e '.[t5x]'") from e
    vocabulary = seqio.PassThroughVocabulary(size=target.config.vocab_size, eos_id=target.eos_id)
    model = models.EncoderDecoderModel(
        network.Transformer(network.T5Config(**fields)), vocabulary, vocabulary, optimizer_def=None,
        decode_fn=functools.partial(decoding.temperature_sample, temperature=0.0, topk=0))
    self._predict = jax.jit(model.predict_batch)
    self._max_decode_len = max_decode_len

  def __call__(self, target, batch) -> Result:
    """Decodes a `batching.Batch`; the tokens are on the host when it returns."""
    empty = np.zeros((len(batch.tokens), self._max_decode_len), np.int32)
    tokens = self._predict(target.params, {'encoder_input_tokens': batch.tokens,
                                           'decoder_input_tokens': empty})
    return as_result(tokens, target.eos_id)


def as_result(tokens, eos_id: int) -> Result:
  """One-token greedy texts int [B, L], counted as ours: up to the first EOS, EOS included."""
  tokens = np.asarray(tokens)
  ends = tokens == eos_id
  lengths = np.where(ends.any(1), ends.argmax(1) + 1, tokens.shape[1]).astype(np.int32)
  none = np.zeros_like(lengths)
  return Result(
      tokens=np.where(np.arange(tokens.shape[1]) < lengths[:, None], tokens, 0), lengths=lengths,
      status=np.where(ends.any(1), Status.EOS, Status.LENGTH).astype(np.int32),
      scores=np.full(len(tokens), np.nan, np.float32),  # predict_batch returns none
      stats=Stats(target_calls=lengths, drafted=none, accepted=none, emitted=lengths,
                  accepted_by_position=np.zeros((len(tokens), 0), np.int32)))


def measure(target, inputs, batches, methods, repeats: int) -> tuple[str, list[str]]:
  """Times the methods, the first being what the others are compared with.

  Args:
    target: the `Model`.
    inputs, batches: from `runs.batching`, batch size 1.
    methods: called as `runs.methods.Method`.
    repeats: timings of each input.

  Returns:
    A markdown table, and a line for each text that differs from the first
    method's where the target's two largest logits do not tie.
  """
  with Progress(len(batches) * repeats * len(methods), 'benchmark') as progress:
    timed = time_methods(target, methods, batches, repeats, progress)
  base = _tokens_per_second(timed[0], batches)
  name = lambda t: t.method.name if t is timed[0] else f'specdec_jax, {t.method.name}'
  rows, wrong = [], []
  for t in timed:
    differences = agreement.differences(target, inputs, batches, timed[0].results, t.results)
    not_ties = agreement.not_ties(differences, target.config.dtype)
    wrong += [f'{name(t)}: example {d.id} differs at token {d.position} (margin '
              f'{d.margin:.3g})' for d in not_ties]
    speed, drafted = _tokens_per_second(t, batches), t.count('drafted', batches)
    emitted, calls = t.count('emitted', batches), t.count('target_calls', batches)
    rows.append([
        name(t), emitted, number(speed, 1), number(speed / base, 2, 'X'),
        number(emitted / calls, 2),
        number(t.count('accepted', batches) / drafted, 3) if drafted else None,
        f'{len(batches) - len(differences)} of {len(batches)}', number(t.warm_up_seconds, 1)])
  header = ['decoder', 'tokens', 'tokens/s', 'against T5X', 'tokens per call', 'acceptance rate',
            'equal texts', 'warm-up, s']
  return markdown(header, rows), wrong


def _tokens_per_second(timed, batches) -> float:
  return timed.count('emitted', batches) / float(timed.seconds.sum())


def run():
  target = load_model(_TARGET.value, dtype='float32')
  drafter = ModelDrafter(load_model(_DRAFT.value, dtype='float32'))
  drafter.check(target)
  common = dict(sampling=Sampling(temperature=0.0), max_decode_len=_MAX_DECODE_LEN.value)
  methods = [T5XMethod(target, _MAX_DECODE_LEN.value), Method(**common)] + [
      Method(drafter=drafter, gamma=gamma, **common) for gamma in _GAMMA.value]
  examples = read_examples(_INPUTS.value, limit=_LIMIT.value)
  inputs = batching.encode(target, examples, _MAX_INPUT_LEN.value)
  batches = batching.batches(inputs, 1, _MAX_INPUT_LEN.value)
  table, wrong = measure(target, inputs, batches, methods, _REPEATS.value)
  device = jax.devices()[0]
  print(f'Target: {report.describe(target)}. {len(examples)} inputs at batch 1, greedy, up to '
        f'{_MAX_DECODE_LEN.value} tokens, medians of {_REPEATS.value}, on {device.device_kind}.\n\n'
        f'{table}')
  if wrong:
    raise ValueError(f"{len(wrong)} texts differ from T5X's where no tie explains it: "
                     + '; '.join(wrong[:3]))


def main(argv) -> int:
  if argv[1:]:
    raise app.UsageError(f"unexpected argument '{argv[1]}'.")
  try:
    run()
  except (ValueError, OSError, ImportError) as e:
    print(f'benchmark_t5x: error: {e}', file=sys.stderr)
    return 1
  return 0


if __name__ == '__main__':
  flags.mark_flags_as_required(['target', 'draft'])
  app.run(main)
