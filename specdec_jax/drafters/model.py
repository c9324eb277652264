"""A small model as the drafter: the paper's own kind [§2.1]."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from specdec_jax import checks
from specdec_jax.data import identity
from specdec_jax.drafters.chain import distributions_along, sample_chain
from specdec_jax.drafters.drafted import drafted_chain, further_slots
from specdec_jax.drafters.interface import Request, wants_hidden
from specdec_jax.drafters.levels import sample_tree
from specdec_jax.errors import SettingError
from specdec_jax.model import Model
from specdec_jax.models.config_checks import only_padding_apart
from specdec_jax.sampling import Sampling
from specdec_jax.standardizer import Standardizer
from specdec_jax.tree import Tree
from specdec_jax.tree_layout import layout


class ModelDrafter(struct.PyTreeNode):
  """Drafts with a model that shares the target's tokenizer.

  Attributes:
    draft: the model.
    drafter: drafts chains for the draft in turn, exactly [§6], such as a table; None is a pass for each token. It
      cannot be one that wants a target's hidden states.
    inner_gamma: how many tokens it drafts at a time (static).
    sampling: how the draft's logits are standardised; None as the target's. q is what was drawn from, whatever it is
      (static).
  """

  draft: Model
  drafter: Any = None
  inner_gamma: int = struct.field(pytree_node=False, default=3)
  sampling: Sampling | None = struct.field(pytree_node=False, default=None)

  def __post_init__(self):
    object.__setattr__(self, 'inner_gamma', checks.whole('ModelDrafter.inner_gamma', self.inner_gamma, 1,
                                                         checks.MOST_DRAFTED))

  @property
  def name(self) -> str:
    cfg = self.draft.config
    of_drafter = '' if self.drafter is None else f', drafted for by {self.drafter.name}'
    of_sampling = '' if self.sampling is None else f', at {self.sampling}'
    return f'model ({cfg.num_decoder_layers} decoder layers of width {cfg.emb_dim}{of_drafter}{of_sampling})'

  def check(self, target: Model):
    """ValueError unless draft and target speak the same tokens (padding rows aside)."""
    ours, theirs = self.draft, target
    if ours.config.decoder_only != theirs.config.decoder_only:
      raise SettingError('One of draft and target is decoder-only and the other has an encoder; '
                       'they must be of one kind.')
    if ours.vocabulary is not None and theirs.vocabulary is not None:
      shared = min(ours.num_tokens, theirs.num_tokens)
      if (other := identity.difference(ours.vocabulary, theirs.vocabulary, shared)) is not None:
        pieces = [m.vocabulary.pieces[other] for m in (ours, theirs)]
        raise SettingError(
            'The draft and the target have different tokenizers '
            f'({ours.vocabulary.size} and {theirs.vocabulary.size} pieces, '
            f'{ours.vocabulary.digest[:8]} and {theirs.vocabulary.digest[:8]}): id {other} is {pieces[0]!r} in the '
            f"draft's and {pieces[1]!r} in the target's; speculative decoding needs one tokenizer for both.")
    elif not only_padding_apart(ours.config.vocab_size, theirs.config.vocab_size):
      raise SettingError(
          f'The draft has {ours.config.vocab_size} logits, the target {theirs.config.vocab_size}: '
          'more than padding rows apart, so they cannot share a tokenizer. '
          'Import both with --vocabulary=FILE if they do.')
    if self.drafter is not None:
      if wants_hidden(self.drafter):
        raise SettingError(f'ModelDrafter.drafter is {self.drafter.name}, which reads the hidden states of a target; '
                           'take a table, lookup or a smaller model.')
      self.drafter.check(ours)

  def prefill(self, request: Request, cache_length: int):
    further = 0 if self.drafter is None else further_slots(self.inner_gamma)
    cache = self.draft.prefilled(request.tokens, cache_length + further, request.given)
    return cache if self.drafter is None else (cache, self.drafter.prefill(request, cache_length + further))

  def propose(self, state, text, tree, keys, standardizer):
    """See `Drafter.propose`: a pass of the draft for each level; `state` is its cache."""
    standardizer = self._own(standardizer)
    if self.drafter is not None:
      if not tree.is_chain:
        raise SettingError(f'The draft is a {tree.name}, and {self.name} drafts chains; take gamma, or leave '
                           'ModelDrafter.drafter out.')
      return drafted_chain(self.draft, self.drafter, state, text, tree.num_nodes, self.inner_gamma, keys, standardizer)
    # The cache may lack what was committed last: of a chain only the last draft token, which the draft never
    # fed; of a tree the whole accepted path, whose nodes lay elsewhere. So the first pass feeds it (again). At
    # the start of a text the tokens after the root are none yet; what they leave is written again before it is read.
    again = fed_by_level(tree)[0]
    before = jnp.maximum(text.position - (again - 1), 0)
    last = jax.vmap(lambda row, at: lax.dynamic_slice(row, (at,), (again,)))(text.history, before)
    logits, cache = self.draft.step(state, last, before)
    at_root = jnp.take_along_axis(logits, (text.position - before)[:, None, None], axis=1)  # [B, 1, V]
    if tree.is_chain:
      return sample_chain(at_root[:, 0], self._next, cache, text, tree.num_nodes, keys, standardizer)
    num_slots = text.history.shape[1]
    fed = Fed(tree)

    def logits_of(cache, depth, parents, tokens):
      if not depth:
        return at_root, cache
      offset, depths, sees = fed.level(depth)
      key_positions, visible = layout(text.position + 1, fed.depths - 1, sees, num_slots)
      logits, cache, _ = self.draft.tree_step(
          cache, jnp.maximum(tokens[:, parents], 0), text.position[:, None] + depths, text.position + 1 + offset,
          key_positions, visible)
      return logits, cache

    return sample_tree(logits_of, cache, text, tree, keys, standardizer)

  def _next(self, cache, token, place):
    logits, cache = self.draft.step(cache, token[:, None], place)
    return logits[:, 0], cache

  def distributions(self, request, history, prefix_end, standardizer):
    """See `Drafter.distributions`."""
    return distributions_along(self._own(standardizer), self.logits(request.tokens, history), history, prefix_end)

  def _own(self, standardizer: Standardizer) -> Standardizer:
    return standardizer if self.sampling is None else standardizer.sampled(self.sampling)

  def logits(self, tokens, history):
    """Teacher-forced raw logits float32 [B, N - 1, V] of history[:, 1:]: tokens and history as in `distributions`."""
    cache = self.draft.prefill(tokens, history.shape[1])
    logits, _ = self.draft.step(cache, history[:, :-1], jnp.zeros(history.shape[0], jnp.int32))
    return logits


def fed_by_level(tree: Tree) -> tuple[int, ...]:
  """How many tokens of a row the draft's pass for each level is over."""
  again = 2 if tree.is_chain else tree.depth + 1
  return again, *(len(nodes) for nodes in tree.expanded[1:])


class Fed:
  """The nodes that the draft itself is run on, those with children: level by level in its cache."""

  def __init__(self, tree: Tree):
    self._levels, self._tree = tree.expanded[1:], tree
    self._nodes = np.concatenate([*self._levels, np.zeros(0, np.int32)]).astype(np.int32)
    self.depths = tree.depths[self._nodes]

  def level(self, depth: int) -> tuple[int, Any, Any]:
    """Of a depth from 1: the first one's place among all, their depths [n], and whom they see, bool [n, O]."""
    nodes = self._levels[depth - 1]
    offset = sum(len(level) for level in self._levels[:depth - 1])
    return offset, self._tree.depths[nodes], self._tree.ancestors[np.ix_(nodes, self._nodes)]
