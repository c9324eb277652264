"""Heads on the target: drafters that read its last hidden states, so that they need no model of their own."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from specdec_jax.drafters.chain import distributions_along, sample_chain
from specdec_jax.drafters.interface import Request
from specdec_jax.drafters.levels import sample_levels, sample_tree
from specdec_jax.drafters.model import Fed
from specdec_jax.errors import SettingError
from specdec_jax.models.heads import HeadsConfig, heads_network
from specdec_jax.tree_layout import layout


class HeadsDrafter(struct.PyTreeNode):
  """What both kinds share: the weights of the heads, and the target's embedding and vocabulary product.

  Attributes:
    params: of `models.heads`.
    config: their sizes (static).
    target: whose heads they are; put there by `for_target`.
  """

  params: Any
  config: HeadsConfig = struct.field(pytree_node=False)
  target: Any = None

  wants_hidden = True

  @property
  def name(self) -> str:
    return self.config.description

  @property
  def operations(self) -> float:
    """Multiply-adds of a draft token, with the vocabulary product."""
    kernels = sum(x.size for x in jax.tree.leaves(self.params) if x.ndim == 2)
    each = kernels / self.config.count if self.config.kind == 'parallel' else kernels
    return each + self.config.hidden_dim * self.config.vocab_size

  def check(self, target):
    """SettingError unless the heads are of a target of these sizes."""
    ours, theirs = self.config, target.config
    for what, own, other in (('hidden states of width', ours.hidden_dim, hidden_dim(target)),
                             ('logits', ours.vocab_size, theirs.vocab_size)):
      if own != other:
        raise SettingError(f'The heads ({self.name}) are of a target with {what} {own}, this one has {other}; train '
                           'heads for it with gin/runs/train_heads.gin.')
    if ours.kind == 'layer' and ours.encoded == theirs.decoder_only:
      raise SettingError(f'The heads ({self.name}) are of a target {"with an" if ours.encoded else "without"} encoder, '
                         'and this one is not; train heads for it with gin/runs/train_heads.gin.')

  def for_target(self, target):
    """With the target's own weights."""
    return self.replace(target=target)

  def apply(self, method: str, *args):
    """A method of the heads' network."""
    return heads_network(self.config).apply({'params': self.params}, *args, method=method)

  def teacher_forced(self, request: Request, history):
    """The target's hidden state before each token of a text but its last, zeros first, and the encoder's output.

    [B, N - 1, E], and [B, S, E] or None.
    """
    cache, told = self.target.with_hidden('prefill', request.tokens, history.shape[1])
    _, along = self.target.with_hidden('step', cache, history[:, :-1], jnp.zeros(len(history), jnp.int32))
    return shifted(along.last), told.encoded

  def visible(self, request: Request):
    """bool [B, S]: the tokens of an encoder that are no padding."""
    return request.tokens != self.target.config.pad_id


class ParallelHeadsDrafter(HeadsDrafter):
  """Head i speaks of the token i + 1 places after the root, from the hidden state before the root and the root.

  It does not see the draft tokens in between, so later heads agree less, and tokens per call fall short of eq. 1. In
  a tree all nodes of a level have the same head.
  """

  @property
  def most_depth(self) -> int:
    """A token a head."""
    return self.config.count

  def prefill(self, request, cache_length: int):
    del request, cache_length
    return ()

  def propose(self, state, text, tree, keys, standardizer):
    """See `Drafter.propose`."""
    if tree.depth > self.config.count:
      raise SettingError(f'The draft is {tree.depth} tokens deep, and the heads are {self.config.count}; take gamma = '
                         f'{self.config.count} at most.')
    root = jnp.take_along_axis(text.history, text.position[:, None], axis=1)  # [B, 1]
    found = self.apply('__call__', text.hidden[:, -1], self.target.embed(root)[:, 0])
    logits = self.target.to_logits(found[:, :tree.depth])
    return sample_levels(logits, text, tree, keys, standardizer), state

  def distributions(self, request, history, prefix_end, standardizer, offset: int = 0):
    """See `Drafter.distributions`: those of head `offset`, of the first tokens of a text those of heads before it."""
    before, _ = self.teacher_forced(request, history)
    found = self.apply('__call__', before, self.target.embed(history[:, :-1]))  # [B, N - 1, count, E]
    place = np.arange(history.shape[1] - 1)
    head = np.minimum(place, offset)
    return distributions_along(standardizer, self.target.to_logits(found[:, place - head, head]), history, prefix_end)


class LayerDrafter(HeadsDrafter):
  """A small decoder over hidden states and tokens, run token by token; its state is its cache.

  The entry at a place was made from the token there and the target's hidden state before it. Of draft tokens that
  hidden state is not known: the one that the layer itself made for the place before stands for it, so later tokens
  of a draft agree less. Once the target has been run on them, the entries are made again, from its own.
  `distributions` are those of the first token of each draft.
  """

  def prefill(self, request, cache_length: int):
    """See `Drafter.prefill`: an entry for each token of the prompt, or of what was given."""
    batch = len(request.tokens)
    cache = self.apply('prefill', request.hidden.encoded, self.visible(request), batch, cache_length)
    if request.hidden.last is None:
      return cache
    fed = request.tokens if request.given is None else request.given
    return self.apply('step', cache, shifted(request.hidden.last), self.target.embed(fed),
                      jnp.zeros(batch, jnp.int32))[1]

  def propose(self, state, text, tree, keys, standardizer):
    """See `Drafter.propose`."""
    # What was committed last is fed again, with the target's hidden states; see `ModelDrafter.propose`.
    again = tree.depth + 1
    before = jnp.maximum(text.position - tree.depth, 0)
    rows_from = jax.vmap(lambda row, at: jax.lax.dynamic_slice_in_dim(row, at, again))
    missing = tree.depth - (text.position - before)  # at the start of a text
    hidden = rows_from(jnp.pad(text.hidden, ((0, 0), (0, tree.depth), (0, 0))), missing)
    made, cache = self.apply('step', state, hidden, self.target.embed(rows_from(text.history, before)), before)
    at_root = jnp.take_along_axis(made, (text.position - before)[:, None, None], axis=1)  # [B, 1, E]
    logits = self.target.to_logits(at_root)
    if tree.is_chain:
      proposal, (cache, _) = sample_chain(logits[:, 0], self._next, (cache, at_root), text, tree.num_nodes, keys,
                                          standardizer)
      return proposal, cache
    num_slots, fed = text.history.shape[1], Fed(tree)
    above = np.asarray(tree.parents) + 1

    def logits_of(state, depth, parents, tokens):
      cache, made = state  # [B, M + 1, E] of the root and the nodes
      if not depth:
        return logits, state
      offset, depths, sees = fed.level(depth)
      key_positions, visible = layout(text.position + 1, fed.depths - 1, sees, num_slots)
      new, cache = self.apply(
          'tree_step', cache, made[:, above[parents]], self.target.embed(jnp.maximum(tokens[:, parents], 0)),
          text.position[:, None] + depths, text.position + 1 + offset, key_positions, visible)
      return self.target.to_logits(new), (cache, made.at[:, parents + 1].set(new))

    made = jnp.pad(at_root, ((0, 0), (0, tree.num_nodes), (0, 0)))
    proposal, (cache, _) = sample_tree(logits_of, (cache, made), text, tree, keys, standardizer)
    return proposal, cache

  def _next(self, state, token, place):
    cache, hidden = state
    made, cache = self.apply('step', cache, hidden, self.target.embed(token[:, None]), place)
    return self.target.to_logits(made)[:, 0], (cache, made)

  def distributions(self, request, history, prefix_end, standardizer):
    """See `Drafter.distributions`."""
    before, encoded = self.teacher_forced(request, history)
    made = self.apply('__call__', before, self.target.embed(history[:, :-1]), encoded, self.visible(request))
    return distributions_along(standardizer, self.target.to_logits(made), history, prefix_end)


KINDS: dict[str, type[HeadsDrafter]] = {'parallel': ParallelHeadsDrafter, 'layer': LayerDrafter}


def hidden_dim(target) -> int:
  """E of a target, which may be of shapes."""
  return jax.eval_shape(lambda model, token: model.embed(token), target,
                        jax.ShapeDtypeStruct((1, 1), jnp.int32)).shape[-1]


def heads_for(config: HeadsConfig, target) -> HeadsConfig:
  """The configuration with what of it is the target's filled in."""
  return dataclasses.replace(config, hidden_dim=hidden_dim(target), vocab_size=target.config.vocab_size,
                             encoded=not target.config.decoder_only)


def shifted(hidden):
  """[B, T, E] of the places before: zeros, then all but the last."""
  return jnp.pad(hidden[:, :-1], ((0, 0), (1, 0), (0, 0)))
