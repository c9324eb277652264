"""A T5X model that decodes with drafts, and is otherwise the model that it was made of."""

import dataclasses
from collections.abc import Mapping, MutableMapping
from typing import Any

import flax
import jax
import jax.numpy as jnp
from absl import logging
from flax import traverse_util
from t5x import models

from specdec_jax import rule
from specdec_jax.checkpoints.t5x.fields import from_t5x
from specdec_jax.decoding import Settings, decode_loop, inputs
from specdec_jax.drafters.interface import Request
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import SettingError
from specdec_jax.integrations.t5x import sampler
from specdec_jax.integrations.t5x.draft import COLLECTION, Draft
from specdec_jax.model import Model
from specdec_jax.models.config import T5Config
from specdec_jax.models.parameters import check_parameters, is_matrix
from specdec_jax.results import Result
from specdec_jax.sampling import Sampling
from specdec_jax.standardizer import Standardizer
from specdec_jax.tree import Tree


class SpeculativeModel(models.EncoderDecoderModel):
  """Decodes by `temperature_sample`'s settings with a draft; its text follows the target's own distribution.

  Scores of given targets, training and what else T5X asks of a model are the target's.
  """

  def __init__(self, target: models.EncoderDecoderModel, draft: Draft, gamma: int | None = None,
               tree: Tree | int | None = None, verification: str = 'token', lenience: float = 1.0):
    """See `specdec_jax.speculative_decode` for gamma (7 by default), tree, verification and lenience.

    Args:
      target: with T5X's minimal network and `t5x.decoding.temperature_sample` as its decode_fn.
      draft: where the draft is.

    Raises:
      SettingError: another network or decode_fn, or a wrong setting.
    """
    sampler.check(target.decode_fn)
    if getattr(target.module, 'scan_layers', False):
      raise SettingError("The target's layers are scanned; speculation is of T5X's network without scanning.")
    super().__init__(
        module=target.module, input_vocabulary=target.input_vocabulary, output_vocabulary=target.output_vocabulary,
        optimizer_def=target.optimizer_def, decode_fn=target.decode_fn,
        feature_converter_cls=target.FEATURE_CONVERTER_CLS, default_decoder_params=target._default_decoder_params)
    rows, ids = target.module.config.vocab_size, target.output_vocabulary.vocab_size
    self._config = from_t5x(target.module.config, num_pieces=min(rows, ids))
    self._target, self.draft, self._verification, self._lenience = target, draft, verification, lenience
    self._tree = inputs.checked_tree(gamma, tree)
    rule.check(lenience, verification, self._tree.is_chain)

  def get_initial_variables(self, *args: Any, **kwargs: Any) -> Any:
    return self._target.get_initial_variables(*args, **kwargs)

  def loss_fn(self, *args: Any, **kwargs: Any) -> Any:
    return self._target.loss_fn(*args, **kwargs)

  def eval_fn(self, *args: Any, **kwargs: Any) -> Any:
    return self._target.eval_fn(*args, **kwargs)

  def score_batch(self, params: Any, batch: Any, return_intermediates: bool = False) -> Any:
    return self._target.score_batch(params, batch, return_intermediates)

  def predict_batch(self, params: Any, batch: Mapping[str, Any], rng: Any = None, flax_mutables: Any = None) -> Any:
    """See `predict_batch_with_aux`."""
    return self.predict_batch_with_aux(params, batch, rng, flax_mutables=flax_mutables)[0]

  def predict_batch_with_aux(self, params: Any, batch: Mapping[str, Any], rng: Any = None,
                             decoder_params: MutableMapping[str, Any] | None = None,
                             return_all_decodes: bool | None = None, num_decodes: int | None = None,
                             prompt_with_targets: bool = False, flax_mutables: Any = None) -> Any:
    """As T5X's, in arguments and in what is returned.

    Args:
      flax_mutables: with the draft's weights as 'draft', which T5X's programs pass on from a `CheckpointManager`.
        Without them T5X itself decodes.

    Raises:
      SettingError: a setting of the sampler that has no counterpart; see `sampler.asked`.
    """
    default, decoder_params = self._default_decoder_params, dict(decoder_params or {})
    everything = default.return_all_decodes if return_all_decodes is None else return_all_decodes
    num_decodes = default.num_decodes if num_decodes is None else num_decodes
    if COLLECTION not in (flax_mutables or {}):
      logging.warning('Decoding without speculation: there is no draft in flax_mutables.')
      return self._target.predict_batch_with_aux(
          params, batch, rng, decoder_params, everything, num_decodes, prompt_with_targets)
    if rng is not None and decoder_params.get('decode_rng') is not None:
      raise SettingError('There is a decode_rng among decoder_params and an rng besides; give one of them.')
    key = decoder_params.get('decode_rng') if rng is None else rng
    asked = sampler.asked(self.decode_fn, decoder_params)
    prompts = _prompts(batch['decoder_input_tokens'], self.output_vocabulary.eos_id) if prompt_with_targets else None
    decodes, scores = self._decode(params, flax_mutables[COLLECTION], batch, asked,
                                   jax.random.PRNGKey(0) if key is None else key, num_decodes,
                                   decoder_params.get('eos_id', self.output_vocabulary.eos_id or 1), prompts)
    return (decodes, {'scores': scores}) if everything else (decodes[:, -1], {'scores': scores[:, -1]})

  def _decode(self, params: Any, draft_params: Any, batch: Mapping[str, Any], asked: sampler.Asked, key: Any,
              num_decodes: int, eos_id: int, prompts: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    """int32 [B, num_decodes, L] and float32 [B, num_decodes], best last; prompts int32 [B, P], 0 after their ends."""
    batch_size, room = batch['decoder_input_tokens'].shape
    tokens = batch['encoder_input_tokens']
    target = _model(params, self._config, eos_id, 'The target')
    draft = _model(draft_params, self.draft.config, eos_id, 'The draft')
    drafter = ModelDrafter(draft)
    drafter.check(target)
    length = room if asked.max_decode_steps is None else min(room, asked.max_decode_steps)
    settings = Settings(tree=self._tree, max_decode_len=length, verification=self._verification,
                        lenient=self._lenience < 1, num_samples=num_decodes)
    standardizer = Standardizer.of_target(target, asked.sampling)
    ends = jnp.where(tokens != 0, jnp.arange(1, tokens.shape[1] + 1, dtype=jnp.int32), 0).max(1)
    given = jnp.zeros((batch_size, 0), jnp.int32) if prompts is None else prompts
    given_lengths = (given != 0).sum(1, dtype=jnp.int32)
    request = Request(tokens=tokens, lengths=ends)
    if prompts is not None:  # the start token stands before them
      request = request.replace(given=jnp.pad(given, ((0, 0), (1, 0))), given_lengths=given_lengths + 1)
    result = decode_loop(target, drafter, request, jax.random.bits(key, dtype=jnp.uint32),
                         jnp.arange(len(tokens), dtype=jnp.uint32), standardizer, jnp.float32(self._lenience), settings)
    texts = _Texts(jnp.repeat(given, num_decodes, axis=0), jnp.repeat(given_lengths, num_decodes), result, room)
    if not asked.rescale_log_probs:
      own = Standardizer.of_target(target, Sampling())
      scores = result.scores if prompts is None else _scores(target, request, texts, own)  # some of it may be cut off
    elif asked.sampling.greedy:
      scores = jnp.zeros_like(result.scores)
    else:
      scores = _scores(target, request, texts, standardizer)
    decodes = texts.whole.reshape(batch_size, num_decodes, room)
    scores = scores.reshape(batch_size, num_decodes)
    order = jnp.argsort(scores, axis=-1)
    return jnp.take_along_axis(decodes, order[..., None], axis=1), jnp.take_along_axis(scores, order, axis=-1)


def _model(params: Any, config: T5Config, eos_id: int, subject: str) -> Model:
  """T5X's parameters as the decoding loop takes them; CheckpointError where they are of another network."""
  config = dataclasses.replace(config, eos_id=eos_id, eos_ids=(eos_id,))
  flat = traverse_util.flatten_dict(flax.core.unfreeze(params), sep='/')
  check_parameters({name: value.shape for name, value in flat.items()}, config, f"{subject}'s train state")
  cast = {name: jnp.asarray(value, config.dtype if is_matrix(name, value.shape) else jnp.float32)
          for name, value in flat.items()}
  return Model(traverse_util.unflatten_dict(cast, sep='/'), config)


def _prompts(decoder_tokens: jax.Array, eos_id: int) -> jax.Array:
  """What T5X forces with prompt_with_targets, int32 [B, L - 1]: each row's tokens up to its first EOS or padding."""
  tokens = decoder_tokens[:, 1:]
  inside = jnp.cumprod((tokens != 0) & (tokens != eos_id), axis=1, dtype=jnp.int32)
  return (tokens * inside).astype(jnp.int32)


class _Texts:
  """Prompts and what was generated after them, as T5X returns them.

  Attributes:
    whole: int32 [B, room], 0 after the end: prompt and generated tokens, of which `generated` int32 [B] count.
    prompt_lengths: int32 [B].
  """

  def __init__(self, prompts: jax.Array, prompt_lengths: jax.Array, result: Result, room: int):
    at = jnp.arange(room) - prompt_lengths[:, None]
    self.prompt_lengths = prompt_lengths
    self.generated = jnp.minimum(result.lengths, room - prompt_lengths)
    new = jnp.take_along_axis(result.tokens, jnp.clip(at, 0, result.tokens.shape[1] - 1), axis=1)
    prompts = jnp.pad(prompts, ((0, 0), (0, room - prompts.shape[1])))
    self.whole = jnp.where(at < 0, prompts, jnp.where(at < self.generated[:, None], new, 0))


def _scores(target: Model, request: Request, texts: _Texts, standardizer: Standardizer) -> jax.Array:
  """Log-probability of what was generated under the distributions of a standardizer, float32 [B].

  One pass over each finished text, a row at a time, since all rows' distributions are large; a program that does not
  return scores leaves it out.
  """
  def one(row):
    tokens, length, text, start, generated = row
    history = jnp.concatenate([jnp.full(1, target.config.decoder_start_id, jnp.int32), text])
    p, = ModelDrafter(target).distributions(Request(tokens=tokens[None], lengths=length[None]), history[None],
                                            start[None], standardizer)
    chosen = jnp.take_along_axis(p, text[:, None], axis=1)[:, 0]
    # A pass over all tokens rounds otherwise than the decode's did; what was sampled has a probability all the same.
    logs = jnp.log(jnp.maximum(chosen, jnp.finfo(jnp.float32).tiny))
    at = jnp.arange(len(text)) - start
    return jnp.where((at >= 0) & (at < generated), logs, 0.0).sum()

  times = len(texts.whole) // len(request.tokens)
  tokens, lengths = (jnp.repeat(x, times, axis=0) for x in (request.tokens, request.lengths))
  return jax.lax.map(one, (tokens, lengths, texts.whole, texts.prompt_lengths, texts.generated))
