"""What a drafter holds on the device, and what its passes take: of a model, of heads on the target, or nothing."""

from typing import Any

import jax.numpy as jnp

from specdec_jax.drafters.heads import HeadsDrafter, LayerDrafter, ParallelHeadsDrafter
from specdec_jax.drafters.model import fed_by_level
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.models.heads import HeadsConfig
from specdec_jax.tpu.traffic import Pass, decoder_pass, read_in_a_pass
from specdec_jax.tree import Tree


def weights(drafter: Any) -> Any:
  """A pytree of the weights of its own."""
  if isinstance(drafter, HeadsDrafter):
    return drafter.params
  draft = getattr(drafter, 'draft', None)
  return {} if draft is None else draft.params


def configuration(drafter: Any) -> T5Config | GPT2Config | HeadsConfig | None:
  """Its sizes, where it has weights of its own."""
  return getattr(getattr(drafter, 'draft', drafter), 'config', None)


def draft_pass(drafter: Any, target: Any, tokens: int, rows: int, input_length: int, cache_length: int,
               parts: int) -> Pass | None:
  """One pass of a drafter, None of one that computes next to nothing.

  Args:
    drafter, target: of shapes.
    tokens, rows, input_length, cache_length: see `traffic.decoder_pass`.
    parts: devices that share the target, whose vocabulary product heads use: each does its part of it.
  """
  if isinstance(drafter, HeadsDrafter):
    return _heads_pass(drafter, target, tokens, rows, input_length, cache_length, parts)
  draft = getattr(drafter, 'draft', None)
  return None if draft is None else decoder_pass(draft, tokens, rows, input_length, cache_length)


def in_one_pass(drafter: Any) -> bool:
  """Whether all tokens of a draft come from one pass."""
  return isinstance(drafter, ParallelHeadsDrafter)


def tokens_by_pass(drafter: Any, tree: Tree) -> tuple[int, ...]:
  """How many tokens of a row each pass for a draft is over."""
  if in_one_pass(drafter):
    return tree.depth,
  first, *others = fed_by_level(tree)
  return (tree.depth + 1 if isinstance(drafter, LayerDrafter) else first), *others


def _heads_pass(heads: HeadsDrafter, target, tokens, rows, input_length, cache_length, parts) -> Pass:
  """Of parallel heads the tokens are those of the draft, all of one pass; of a layer those that it is run on."""
  config, params, keys, logits = heads.config, heads.params, 0, logits_of(target)
  if in_one_pass(heads):
    unused = tuple(f'heads_{i}_' for i in range(tokens, config.count))
    params = {name: x for name, x in params.items() if not name.startswith(unused)}
  else:
    attended = cache_length + (input_length if config.encoded else 0)
    keys = config.num_layers * attended * config.num_heads * config.head_dim  # as many values
  own = read_in_a_pass(params)
  matrices = sum(x.size for x in own if len(x.shape) == 2) // (tokens if in_one_pass(heads) else 1)  # a token's
  return Pass(weights=sum(x.size * x.dtype.itemsize for x in own) + logits.size * logits.dtype.itemsize // parts,
              caches=2 * keys * rows * jnp.dtype(config.dtype).itemsize,
              flops=2 * rows * tokens * (matrices + logits.size // parts + 2 * keys),
              layers=1 if in_one_pass(heads) else config.num_layers)


def logits_of(target) -> Any:
  """The matrix of a target's vocabulary product."""
  if target.config.logits_via_embedding:
    return target.params['token_embedder']['embedding']
  return target.params['decoder']['logits_dense']['kernel']
