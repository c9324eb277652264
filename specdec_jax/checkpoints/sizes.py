"""The configuration of a T5X checkpoint, which carries none, read off its shapes."""

import re

from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.checkpoints.t5x.flaxformer import is_gated
from specdec_jax.errors import CheckpointError, SettingError
from specdec_jax.models.config import T5Config


def config_from_leaves(leaves: dict[str, Leaf], source: str) -> T5Config:
  """Reads the sizes off the shapes of a T5X tree (not scanned).

  The rest is T5 v1.1 (gated GELU), or v1.0 (ReLU, tied logits) where the tree
  has `wi` and no `logits_dense`. Tied logits are scaled, as in T5X. The number
  of heads comes from the relative bias [heads, buckets]: the kernels are 2-D
  and only tell heads times head_dim. An encoder with a bias for global tokens is LongT5's; LongT5's
  local one has T5's own names and shapes, so that a gin file must say it.

  Raises:
    CheckpointError: the tree lacks a parameter that the sizes are read from, or they make no model.
  """
  def find(pattern):
    for path, leaf in leaves.items():
      if re.fullmatch(pattern, path):
        if len(leaf.shape) != 2:
          raise CheckpointError(f"'{path}' in '{source}' has shape {list(leaf.shape)}, not two "
                                'dimensions as in T5X; the configuration cannot be read off it.')
        return leaf.shape
    raise CheckpointError(f"'{source}' has no parameter like '{pattern}'; it is incomplete, or no T5 "
                          "encoder-decoder in T5X's layout.")

  def depth(stack):
    found = {int(m[1]) for m in (re.match(rf'{stack}/layers_(\d{{1,6}})/', p) for p in leaves) if m}
    return max(found, default=-1) + 1

  vocab_size, emb_dim = find('token_embedder/embedding')
  heads, buckets = find(r'(?:encoder|decoder)/(?:layers_\d+/)?relpos_bias/rel_embedding')
  inner = find(r'decoder/layers_\d+/self_attention/query/kernel')[1]
  mlp_dim = find(r'decoder/layers_\d+/mlp/wi(?:_0)?/kernel')[1]
  if not heads or inner % heads:
    raise CheckpointError(f"In '{source}' the relative bias has {heads} heads, which does not divide the query "
                          f"kernels' {inner} columns; it is damaged, or of another model.")
  with_globals = any(path.startswith('encoder/side_relpos_bias/') for path in leaves)
  try:
    return T5Config(
        vocab_size=vocab_size, emb_dim=emb_dim, num_heads=heads, head_dim=inner // heads,
        mlp_dim=mlp_dim, num_encoder_layers=depth('encoder'), num_decoder_layers=depth('decoder'),
        mlp_activations=('gelu', 'linear') if is_gated(leaves) else ('relu',),
        logits_via_embedding='decoder/logits_dense/kernel' not in leaves,
        relative_bias_per_layer=any(re.match(r'decoder/layers_\d+/relpos_bias/', p) for p in leaves),
        num_buckets=buckets, encoder_attention='transient_global' if with_globals else 'full')
  except SettingError as e:
    raise CheckpointError(f"The shapes in '{source}' are those of no T5: {e}") from e
