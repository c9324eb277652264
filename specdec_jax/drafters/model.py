"""A small model as the drafter: the paper's own kind [§2.1]."""

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax

from specdec_jax.drafters.sampling_steps import distributions_along, sample_next
from specdec_jax.errors import SettingError
from specdec_jax.model import Model


class ModelDrafter(struct.PyTreeNode):
  """Drafts with a model that shares the target's tokenizer."""

  draft: Model

  @property
  def name(self) -> str:
    cfg = self.draft.config
    return f'model ({cfg.num_decoder_layers} decoder layers of width {cfg.emb_dim})'

  def check(self, target: Model):
    """ValueError unless draft and target speak the same tokens (padding rows aside)."""
    ours, theirs = self.draft, target
    if ours.config.decoder_only != theirs.config.decoder_only:
      raise SettingError('One of draft and target is decoder-only and the other has an encoder; '
                       'they must be of one kind.')
    if None not in (ours.vocabulary, theirs.vocabulary):
      if ours.vocabulary != theirs.vocabulary:
        raise SettingError(
            'The draft and the target have different tokenizers '
            f'({ours.vocabulary.size} and {theirs.vocabulary.size} pieces, '
            f'{ours.vocabulary.digest[:8]} and {theirs.vocabulary.digest[:8]}); '
            'speculative decoding needs one tokenizer for both.')
    elif abs(ours.config.vocab_size - theirs.config.vocab_size) >= 128:
      raise SettingError(
          f'The draft has {ours.config.vocab_size} logits, the target {theirs.config.vocab_size}: '
          'more than padding rows apart, so they cannot share a tokenizer. '
          'Import both with --vocabulary=FILE if they do.')

  def prefill(self, tokens, cache_length: int):
    return self.draft.prefill(tokens, cache_length)

  def propose(self, cache, history, position, first, keys, gamma: int, standardizer):
    """Draws gamma tokens a row, one at a time [alg. 1].

    Args:
      cache: the draft's cache, valid below position - 1.
      history: int32 [B, N], decoder tokens; the last committed one stands at `position`.
      position, first: int32 [B].
      keys: typed keys [B].
      gamma: how many.
      distribution: `Standardizer`.

    Returns:
      draft tokens int32 [B, gamma], the distributions they were drawn from float32
      [B, gamma, V], and the cache.
    """
    def choose(logits_BxV, history, i):
      return sample_next(standardizer, logits_BxV, history, position, first, keys, i)

    # After a fully accepted block the cache lacks the last draft token, so the
    # first step feeds the last two tokens; where there is only one, the second
    # slot holds no token yet and is written again before it is ever read.
    before = jnp.maximum(position - 1, 0)
    pair = jax.vmap(lambda row, at: lax.dynamic_slice(row, (at,), (2,)))(history, before)
    logits, cache = self.draft.step(cache, pair, before)
    last = jnp.take_along_axis(logits, (position - before)[:, None, None], axis=1)[:, 0]
    q0, token0, history = choose(last, history, 0)

    def one(carry, i):
      cache, token, history = carry
      logits, cache = self.draft.step(cache, token[:, None], position + i)
      q, token, history = choose(logits[:, 0], history, i)
      return (cache, token, history), (q, token)

    (cache, _, _), (qs, tokens) = lax.scan(one, (cache, token0, history), jnp.arange(1, gamma))
    tokens = jnp.concatenate([token0[None], tokens]).T
    return tokens, jnp.concatenate([q0[None], qs]).transpose(1, 0, 2), cache

  def distributions(self, tokens, history, first, standardizer):
    """See `Drafter.distributions`."""
    return distributions_along(standardizer, self.logits(tokens, history), history, first)

  def logits(self, tokens, history):
    """Teacher-forced raw logits float32 [B, N - 1, V] of history[:, 1:]; as in `distributions`."""
    cache = self.draft.prefill(tokens, history.shape[1])
    logits, _ = self.draft.step(cache, history[:, :-1], jnp.zeros(history.shape[0], jnp.int32))
    return logits
