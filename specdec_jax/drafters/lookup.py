"""Copies from the input or from the text so far: no model, no table [§3.6]."""

import functools

import jax
import jax.numpy as jnp
from flax import struct

from specdec_jax import checks
from specdec_jax.drafters.interface import Proposal
from specdec_jax.drafters.levels import node_texts

SOURCES = ('input', 'output', 'both')


class LookupDrafter(struct.PyTreeNode):
  """Drafts what followed, the last time that the same tokens stood there.

  The last tokens of the text, up to max_match of them, are looked for in the row's
  input and in what the row has generated; the token after the longest match is the
  guess. Among equally long matches the latest counts, and the output's before the
  input's. Where not even one token matches, the guess is the input's token at the same
  place of the text (its EOS from its end on): right where the output follows the
  input word by word, and the first guess of every text. Each draft token is looked up
  anew, the drafts before it included, so a match may run on into what it has copied.

  Its distribution is one-hot. Copying from the input and verifying at temperature 0 is Shallow
  Aggressive Decoding (Sun et al., 2021), which the paper contains as a special case
  [§3.6]. Padding and the decoder's start token are neither matched nor
  copied. In a tree the children of a node are the tokens after the next best matches.
  The state is the request's own input, nothing else, so nothing survives it.
  Cost: (S + N) x max_match comparisons a draft token, for S input and N decoder slots.

  Attributes:
    source: 'input', 'output' or 'both': where matches may lie.
    max_match: longest match that counts, in tokens.
  """

  source: str = struct.field(pytree_node=False, default='both')
  max_match: int = struct.field(pytree_node=False, default=3)

  def __post_init__(self):
    checks.choice('LookupDrafter.source', self.source, SOURCES)
    object.__setattr__(self, 'max_match', checks.whole('LookupDrafter.max_match', self.max_match, 1))

  @property
  def name(self) -> str:
    where = 'input and output' if self.source == 'both' else self.source
    return f'lookup ({where}, up to {self.max_match} tokens)'

  def check(self, target):
    del target  # any: it copies the target's own tokens

  def prefill(self, request, cache_length: int):
    del cache_length
    return request

  def propose(self, state, text, tree, keys, standardizer):
    """See `Drafter.propose`: each child is the next best guess, proposed for certain."""
    del keys
    tokens = jnp.full((len(text.position), tree.num_nodes), -1, jnp.int32)
    for depth, parents in enumerate(tree.expanded):
      histories = node_texts(text, tree, parents, tokens)
      children = tree.children[parents + 1]
      count = int((children >= 0).sum(1).max())
      real = children[:, :count] >= 0
      guess = functools.partial(self._guesses, count=count)
      guesses = jax.vmap(jax.vmap(guess, (None, None, 0, None)))(
          state.tokens, state.lengths, histories, text.position + 1 + depth)  # [B, n, count]
      tokens = tokens.at[:, children[:, :count][real]].set(guesses[:, real])
    return Proposal(jnp.where(tokens < standardizer.num_rows, tokens, -1), None), state

  def distributions(self, request, history, prefix_end, standardizer):
    """See `Drafter.distributions`."""
    del prefix_end
    lengths = jnp.arange(1, history.shape[1])
    guess = lambda tokens, length, text, place: self._guesses(tokens, length, text, place, count=1)[0]
    along = jax.vmap(jax.vmap(guess, (None, None, None, 0)), (0, 0, 0, None))
    return jax.nn.one_hot(along(request.tokens, request.lengths, history, lengths), standardizer.num_rows,
                          dtype=jnp.float32)

  def _guesses(self, given_S, given_length, history_N, length, count: int):
    """What may follow history[:length] of one row: int32 [count], the best first, all different; -1 is none.

    given_S is the row's input, of which the first given_length tokens are no padding.
    """
    aligned = given_S[jnp.clip(length - 1, 0, given_length - 1)]
    # Only what has a token after it can be matched; the start token, at 0, never.
    matches = functools.partial(self._matches, history_N=history_N, length=length)
    in_given = matches(given_S, 0, given_length - 1) if self.source != 'output' else 0 * given_S
    in_history = matches(history_N, 1, length - 1) if self.source != 'input' else 0 * history_N
    lengths = jnp.concatenate([in_given, in_history])
    place = jnp.arange(lengths.shape[0])
    following = jnp.roll(jnp.concatenate([given_S, history_N]), -1)
    score = jnp.where(lengths > 0, lengths * lengths.shape[0] + place, -1)  # the longest, of these the latest
    guesses = []
    for _ in range(count):
      best = jnp.argmax(score)
      guess = jnp.where(score[best] >= 0, following[best], aligned)
      aligned = jnp.where(aligned == guess, -1, aligned)
      score = jnp.where(following == guess, -1, score)
      guesses.append(guess)
    return jnp.stack(guesses)

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
