"""Arithmetic operations of a decoder step, from the sizes of its weights."""

from flax import traverse_util

from specdec_jax.tree import Tree


def operations_per_token(model) -> int:
  """Multiply-adds that a model's decoder spends on one token, attention over the cache aside.

  Every kernel is used once a token, but for the cross-attention's keys and values,
  which are computed once a request; the logits count as emb_dim x vocab_size.
  """
  total = 0
  for path, value in traverse_util.flatten_dict(model.params['decoder']).items():
    once = 'encoder_decoder_attention' in path and path[-2] in ('key', 'value')
    if path[-1] == 'kernel' and not once:
      total += value.size
  if model.config.logits_via_embedding:
    total += model.params['token_embedder']['embedding'].size
  return total


def operations_factor(tree: Tree, expected_tokens: float, c_hat: float) -> float:
  """Thm 3.11 of any draft: operations of an iteration over those of its tokens; a draft runs on nodes with children."""
  drafted = sum(len(nodes) for nodes in tree.expanded)
  return (drafted * c_hat + tree.num_nodes + 1) / expected_tokens


def operations_ratio(target, drafter) -> float:
  """c_hat of thm 3.11: a draft token's operations over the target's.

  A drafter with a model (`draft`) spends the model's, another one what its `operations`
  says; tables, copying and random tokens multiply next to nothing and count as 0.
  """
  draft = getattr(drafter, 'draft', None)
  spent = getattr(drafter, 'operations', 0) if draft is None else operations_per_token(draft)
  return spent / operations_per_token(target)
