"""T5X's own decode as a method to time: the baseline of the paper's Table 2.

As in its infer.py: `EncoderDecoderModel.predict_batch` with `temperature_sample` over its minimal
network (t5x/examples/t5/network.py). It does not mask the padding rows after a vocabulary's.
"""

import functools

import jax
import numpy as np

from specdec_jax.benchmarks.counted import as_result
from specdec_jax.checkpoints.t5x.fields import to_t5x
from specdec_jax.errors import DependencyError
from specdec_jax.results import Result
from specdec_jax.sampling import Sampling


class T5XMethod:
  """T5X's jitted one-token decode, called and counted as a `jobs.methods.Method`."""

  name = 'T5X'

  def __init__(self, target, max_decode_len: int, sampling: Sampling = Sampling(temperature=0.0),
               seed: int = 0):
    fields = to_t5x(target.config)
    try:
      from t5x import decoding, models
      from t5x.examples.t5 import network
    except ImportError as e:
      raise DependencyError(
          f"T5X can't be imported ({e}); install it from github.com/google-research/t5x: "
          "pip install -e '.[t5x]'") from e
    import seqio
    vocabulary = seqio.PassThroughVocabulary(size=target.config.vocab_size, eos_id=target.eos_id)
    decode_fn = functools.partial(
        decoding.temperature_sample, temperature=sampling.temperature, topk=sampling.top_k,
        topp=sampling.top_p if sampling.top_p < 1 else 0.0)
    model = models.EncoderDecoderModel(
        network.Transformer(network.T5Config(**fields)), vocabulary, vocabulary, optimizer_def=None,
        decode_fn=decode_fn)
    self._predict = jax.jit(model.predict_batch)
    self._max_decode_len, self._seed = max_decode_len, seed

  def __call__(self, target, batch) -> Result:
    """Decodes a `batching.Batch`; the tokens are on the host when it returns."""
    empty = np.zeros((len(batch.tokens), self._max_decode_len), np.int32)
    key = jax.random.fold_in(jax.random.PRNGKey(self._seed), np.uint32(batch.ids[0]))
    tokens = self._predict(target.params, {'encoder_input_tokens': batch.tokens,
                                           'decoder_input_tokens': empty}, key)
    return as_result(np.asarray(tokens), target.eos_ids)
