"""Unigram and bigram tables as drafters: next to no cost, a small alpha [§3.6, tab. 3]."""

from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from specdec_jax.data import identity
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.drafters import ngram_counts
from specdec_jax.drafters.chain import distributions_along
from specdec_jax.drafters.levels import sample_tree
from specdec_jax.errors import SettingError
from specdec_jax.models.config_checks import only_padding_apart

_NAMES = {1: 'unigram', 2: 'bigram'}
_DISCOUNT = 0.5  # taken from every pair's count and given to the pairs not in the table
_PRIOR = 0.5  # added to every token's count, so that none is impossible


class NGramDrafter(struct.PyTreeNode):
  """Drafts from counts of training text; V tokens, the K most frequent successors of each.

  After token c the table gives x, one of c's K successors, (n(c, x) - 1/2) / n(c); what is
  left of 1 goes to the other tokens in proportion to the unigram distribution, (n(x) + 1/2) /
  (n + V/2). A context that was never seen leaves all to the unigram distribution, as order 1
  always does. The logarithms of that are its logits: temperature, top-k, top-p, the
  vocabulary mask and logits processors apply as to a model's.

  Memory: 8 V (1 + K) bytes, on disk (compressed) less. 8.5 MB for T5's vocabulary of 32,100
  and K = 32; a full table of pairs would take 4.1 GB.

  Attributes:
    unigram: int32 [V], how often each token occurred, EOS included.
    contexts: int32 [V], how often each was followed by another; the start token before first ones.
    successors: int32 [V, K], ids, V where there are fewer; K = 0 in a unigram table.
    counts: int32 [V, K], how often each followed.
    order: 1 or 2.
    start_id: the decoder's start token.
    digest, identity: of the vocabulary's file and of its pieces; '' where they are not known.
  """

  unigram: jax.Array
  contexts: jax.Array
  successors: jax.Array
  counts: jax.Array
  order: int = struct.field(pytree_node=False)
  start_id: int = struct.field(pytree_node=False, default=0)
  digest: str = struct.field(pytree_node=False, default='')
  identity: str = struct.field(pytree_node=False, default='')

  @classmethod
  def fit(cls, texts: Iterable[Sequence[int]], *, order: int = 2, successors: int = 32,
          vocabulary: Tokenizer | None = None, num_tokens: int | None = None, eos_id: int = 1,
          start_id: int = 0) -> 'NGramDrafter':
    """Counts target texts.

    Args:
      texts: ids of each, EOS last; what follows an EOS (padding) is left out.
      order: 1 is a unigram table, 2 a bigram table.
      successors: K, most successors kept of a token.
      vocabulary: of the ids; gives V and EOS, and other vocabularies are refused later.
      num_tokens, eos_id: V and EOS where there is no vocabulary.
      start_id: the decoder's start token.

    Raises:
      ValueError: no text, an id outside the vocabulary, or a setting out of range.
    """
    if order not in _NAMES:
      raise SettingError(f'order is {order}; it must be 1 (unigram) or 2 (bigram).')
    if successors < 1 or successors != int(successors):
      raise SettingError(f'successors is {successors}; it must be a whole number of at least 1.')
    if vocabulary is not None:
      num_tokens, eos_id = vocabulary.size, vocabulary.eos_id
    elif num_tokens is None:
      raise SettingError('fit needs the vocabulary, or num_tokens where there is none.')
    counted = ngram_counts.count(texts, num_tokens, order, successors, eos_id, start_id)
    unigram, contexts, ids, counts = map(jnp.asarray, counted)
    known = {} if vocabulary is None else {'digest': vocabulary.digest, 'identity': vocabulary.identity}
    return cls(unigram, contexts, ids, counts, order=order, start_id=start_id, **known)

  @property
  def name(self) -> str:
    kept = f', {self.successors.shape[1]} successors' if self.order == 2 else ''
    return f'{_NAMES[self.order]} table ({len(self.unigram)} tokens{kept})'

  @property
  def num_counted(self) -> int:
    """Tokens of the texts it was fitted on."""
    return int(np.asarray(self.unigram, np.int64).sum())

  def check(self, target):
    """ValueError unless the table counted the target's tokens (padding rows aside)."""
    theirs, ours = target.vocabulary, len(self.unigram)
    if self.digest and theirs is not None:
      if self.digest != theirs.digest and self.identity != identity.digest(theirs.pieces[:ours]):
        raise SettingError(
            f'The {self.name} was counted with another tokenizer than the target\'s '
            f'({self.digest[:8]}; the target has {theirs.size} pieces, {theirs.digest[:8]}); fit one '
            "with the target's.")
    elif not only_padding_apart(ours, target.config.vocab_size):
      raise SettingError(f'The {self.name} has {ours} tokens, the target {target.config.vocab_size} '
                       'logits: more than padding rows apart; fit one with the target\'s vocabulary.')

  def prefill(self, request, cache_length: int):
    del request, cache_length
    return ()

  def propose(self, state, text, tree, keys, standardizer):
    """See `Drafter.propose`."""
    root = jnp.take_along_axis(text.history, text.position[:, None], axis=1)  # [B, 1]

    def logits_of(state, depth, parents, tokens):
      return self.logits(jnp.maximum(tokens[:, parents], 0) if depth else root), state

    return sample_tree(logits_of, state, text, tree, keys, standardizer)

  def distributions(self, request, history, prefix_end, standardizer):
    """See `Drafter.distributions`."""
    del request
    return distributions_along(standardizer, self.logits(history[:, :-1]), history, prefix_end)

  def logits(self, last):
    """Log-probabilities of the token after each of `last`: int32 [...] -> float32 [..., V]."""
    size = len(self.unigram)
    prior = self.unigram + _PRIOR
    unigram = jnp.log(prior) - jnp.log(prior.sum())
    if self.order == 1:
      return jnp.broadcast_to(unigram, (*last.shape, size))
    row = lambda table, fill: jnp.take(table, last, axis=0, mode='fill', fill_value=fill)
    ids, counts, seen = row(self.successors, size), row(self.counts, 0), row(self.contexts, 0)
    # float32 [..., K]; 0 where there is no successor, whose id V is then dropped.
    bigram = jnp.maximum(counts - _DISCOUNT, 0) / jnp.maximum(seen, 1)[..., None]
    left = 1 - bigram.sum(-1, keepdims=True)
    others = 1 - jnp.take(jnp.exp(unigram), ids, mode='fill', fill_value=0).sum(-1, keepdims=True)
    rest = unigram + jnp.log(left) - jnp.log(jnp.maximum(others, 1e-6))
    put = lambda row, at, values: row.at[at].set(values, mode='drop')
    return jnp.vectorize(put, signature='(v),(k),(k)->(v)')(rest, ids, jnp.log(bigram))
