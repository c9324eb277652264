"""Copies from the input or from the text so far: no model, no table [§3.6]."""

import functools

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax

from specdec_jax.drafters.sampling_steps import write_token
from specdec_jax.errors import SettingError

SOURCES = ('input', 'output', 'both')


class LookupDrafter(struct.PyTreeNode):
  """Drafts what followed, the last time that the same tokens stood there.

  The last tokens of the text, up to max_match of them, are looked for in the row's
  input and in what the row has generated; the token behind the longest match is the
  guess. Among equally long matches the latest counts, and the output's before the
  input's. Where not even one token matches, the guess is the input's token at the same
  place of the text (its EOS from its end on): right where the output follows the
  input word by word, and the first guess of every text. Each draft token is looked up
  anew, the drafts before it included, so a match may run on into what it has copied.

  Its distribution is one-hot. Copying from the input and verifying at temperature 0 is Shallow
  Aggressive Decoding (Sun et al., 2021), which the paper contains as a special case
  [§3.6]. Padding and the decoder's start token are neither matched nor
  copied. The state is the request's own input, nothing else, so nothing survives it.
  Cost: (S + N) x max_match comparisons a draft token, for S input and N decoder slots.

  Attributes:
    source: 'input', 'output' or 'both': where matches may lie.
    max_match: longest match that counts, in tokens.
  """

  source: str = struct.field(pytree_node=False, default='both')
  max_match: int = struct.field(pytree_node=False, default=3)

  def __post_init__(self):
    if self.source not in SOURCES:
      raise SettingError(f"LookupDrafter.source is {self.source!r}; use 'input', 'output' or 'both'.")
    if self.max_match < 1 or self.max_match != int(self.max_match):
      raise SettingError(f'LookupDrafter.max_match is {self.max_match}; '
                       'it must be a whole number of at least 1.')

  @property
  def name(self) -> str:
    where = 'input and output' if self.source == 'both' else self.source
    return f'lookup ({where}, up to {self.max_match} tokens)'

  def check(self, target):
    del target  # any: it copies the target's own tokens

  def prefill(self, tokens, cache_length: int):
    del cache_length
    return jnp.asarray(tokens, jnp.int32)

  def propose(self, state, history, position, first, keys, gamma: int, standardizer):
    """See `Drafter.propose`."""
    del first, keys

    def one(history, i):
      token = jax.vmap(self._guess)(state, history, position + i + 1)
      return write_token(history, token, position + i + 1), token

    _, tokens = lax.scan(one, history, jnp.arange(gamma))
    draft = tokens.T
    return draft, jax.nn.one_hot(draft, standardizer.num_rows, dtype=jnp.float32), state

  def distributions(self, tokens, history, first, standardizer):
    """See `Drafter.distributions`."""
    del first
    lengths = jnp.arange(1, history.shape[1])
    guess = jax.vmap(jax.vmap(self._guess, (None, None, 0)), (0, 0, None))
    return jax.nn.one_hot(guess(tokens, history, lengths), standardizer.num_rows, dtype=jnp.float32)

  def _guess(self, given_S, history_N, length):
    """The token after history[:length] of one row whose input is `given`: int32 scalar."""
    end = jnp.max(jnp.where(given_S != 0, jnp.arange(given_S.shape[0]) + 1, 0))
    aligned = given_S[jnp.minimum(length - 1, jnp.maximum(end - 1, 0))]
    # Only what has a token behind it can be matched; the start token, at 0, never.
    matches = functools.partial(self._matches, history_N=history_N, length=length)
    in_given = matches(given_S, 0, end - 1) if self.source != 'output' else 0 * given_S
    in_history = matches(history_N, 1, length - 1) if self.source != 'input' else 0 * history_N
    lengths = jnp.concatenate([in_given, in_history])
    best = lengths.shape[0] - 1 - jnp.argmax(lengths[::-1])  # the latest of the longest
    text = jnp.concatenate([given_S, history_N])
    return jnp.where(lengths[best] > 0, text[jnp.minimum(best + 1, text.shape[0] - 1)], aligned)

  def _matches(self, text, start, stop, history_N, length):
    """How many tokens up to each place of text[start:stop] are those that end history: int32 [len]."""
    place = jnp.arange(text.shape[0])
    run, count = (place >= start) & (place < stop), jnp.zeros(text.shape[0], jnp.int32)
    for back in range(self.max_match):
      wanted = history_N[jnp.maximum(length - 1 - back, 0)]
      inside = (place - back >= start) & (length - 1 - back >= 1)
      run = run & inside & (jnp.roll(text, back) == wanted)
      count += run
    return count
