"""CTranslate2's greedy decode as a method to time: the same weights, in float32 or in int8."""

import tempfile

from specdec_jax.benchmarks.counted import as_result
from specdec_jax.checkpoints.huggingface.export import to_transformers
from specdec_jax.errors import DependencyError, SettingError
from specdec_jax.results import Result

THREADS = 2  # of a decode, as many as the cores that figures are measured on


class CTranslate2Method:
  """Called and counted as a `jobs.methods.Method`.

  Attributes:
    name: shown in tables.
    exact: whether its texts must be the target's: int8 rounds the activations too.
  """

  def __init__(self, target, max_decode_len: int, compute_type: str = 'float32', threads: int = THREADS):
    """compute_type: 'float32' or 'int8'."""
    if target.config.decoder_only:
      raise SettingError('CTranslate2 is compared with encoder-decoders only; leave it out of --others.')
    try:
      import ctranslate2
      from ctranslate2.converters.transformers import T5Loader
    except ImportError as e:
      raise DependencyError(f"CTranslate2 can't be imported ({e}): pip install -e '.[benchmarks]'") from e
    theirs = to_transformers(target)
    theirs.config.num_layers = target.config.num_encoder_layers  # which `generate` wants to be the decoder's
    spec = T5Loader().get_model_spec(theirs)
    words = [str(i) for i in range(theirs.config.vocab_size)]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.bos_token = spec.config.decoder_start_token = str(target.config.decoder_start_id)
    spec.config.eos_token, spec.config.unk_token = str(target.eos_id), str(target.config.pad_id)
    spec.config.add_source_eos = False
    spec.validate()
    spec.optimize(quantization=compute_type)
    with tempfile.TemporaryDirectory() as directory:
      spec.save(directory)
      self._translator = ctranslate2.Translator(directory, device='cpu', compute_type=compute_type,
                                                inter_threads=1, intra_threads=threads)
    self.name, self.exact = f'CTranslate2, {compute_type}', compute_type == 'float32'
    self._max_decode_len = max_decode_len

  def __call__(self, target, batch) -> Result:
    """Decodes a `batching.Batch`; tokens are on the host on both sides."""
    texts = [[str(t) for t in row if t != target.config.pad_id] for row in batch.tokens]
    found = self._translator.translate_batch(
        texts, beam_size=1, max_decoding_length=self._max_decode_len, max_input_length=0, return_end_token=True)
    return as_result([f.hypotheses[0] for f in found], target.eos_ids, self._max_decode_len)
