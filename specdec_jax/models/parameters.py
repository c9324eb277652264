"""Which parameters a model has: names, shapes, and the comparison with what was found."""

from specdec_jax.errors import CheckpointError
from specdec_jax.models.config import GPT2Config, T5Config

Shapes = dict[str, tuple[int, ...]]


def is_matrix(path: str, shape: tuple[int, ...]) -> bool:
  """Whether a parameter is a kernel or the embedding (the rest stays float32 everywhere)."""
  return len(shape) == 2 and not path.endswith('rel_embedding')


def mlp_names(config: T5Config) -> list[str]:
  """'wi' for one input projection (v1.0), 'wi_0', 'wi_1', ... for several."""
  count = len(config.mlp_activations)
  return ['wi'] if count == 1 else [f'wi_{i}' for i in range(count)]


def parameter_shapes(config: T5Config | GPT2Config) -> Shapes:
  """Every parameter of a model, by '/'-joined path."""
  return _gpt2_shapes(config) if config.decoder_only else _t5_shapes(config)


def _t5_shapes(config: T5Config) -> Shapes:
  emb, inner, mlp = config.emb_dim, config.attention_dim, config.mlp_dim
  bias = (config.num_heads, config.num_buckets)
  shapes = {'token_embedder/embedding': (config.vocab_size, emb)}

  def attention(name):
    for part in ('query', 'key', 'value'):
      shapes[f'{name}/{part}/kernel'] = (emb, inner)
    shapes[f'{name}/out/kernel'] = (inner, emb)

  def feed_forward(name):
    for part in mlp_names(config):
      shapes[f'{name}/mlp/{part}/kernel'] = (emb, mlp)
    shapes[f'{name}/mlp/wo/kernel'] = (mlp, emb)
    shapes[f'{name}/pre_mlp_layer_norm/scale'] = (emb,)

  for stack, depth in (('encoder', config.num_encoder_layers),
                       ('decoder', config.num_decoder_layers)):
    layers = [f'{stack}/layers_{i}' for i in range(depth)]
    for layer in layers:
      if stack == 'encoder':
        attention(f'{layer}/attention')
        shapes[f'{layer}/pre_attention_layer_norm/scale'] = (emb,)
      else:
        attention(f'{layer}/self_attention')
        shapes[f'{layer}/pre_self_attention_layer_norm/scale'] = (emb,)
        attention(f'{layer}/encoder_decoder_attention')
        shapes[f'{layer}/pre_cross_attention_layer_norm/scale'] = (emb,)
      feed_forward(layer)
    for owner in layers if config.relative_bias_per_layer else [stack]:
      shapes[f'{owner}/relpos_bias/rel_embedding'] = bias
    shapes[f'{stack}/{stack}_norm/scale'] = (emb,)
  if not config.logits_via_embedding:
    shapes['decoder/logits_dense/kernel'] = (emb, config.vocab_size)
  return shapes


def _gpt2_shapes(config: GPT2Config) -> Shapes:
  emb, mlp = config.emb_dim, config.mlp_dim
  shapes = {'token_embedder/embedding': (config.vocab_size, emb),
            'position_embedder/embedding': (config.max_positions, emb)}

  def norm(name):
    shapes.update({f'{name}/scale': (emb,), f'{name}/bias': (emb,)})

  def dense(name, inner, outer):
    shapes.update({f'{name}/kernel': (inner, outer), f'{name}/bias': (outer,)})

  for layer in (f'decoder/layers_{i}' for i in range(config.num_layers)):
    norm(f'{layer}/pre_attention_layer_norm')
    for part in ('query', 'key', 'value', 'out'):
      dense(f'{layer}/self_attention/{part}', emb, emb)
    norm(f'{layer}/pre_mlp_layer_norm')
    dense(f'{layer}/mlp/wi', emb, mlp)
    dense(f'{layer}/mlp/wo', mlp, emb)
  norm('decoder/decoder_norm')
  return shapes


def check_parameters(found: Shapes, config: T5Config | GPT2Config, source: str) -> None:
  """Raises CheckpointError that lists all that is missing, superfluous or of another shape."""
  expected = parameter_shapes(config)
  lines = [f'  missing: {path} {list(expected[path])}'
           for path in sorted(expected.keys() - found.keys())]
  lines += [f'  superfluous: {path} {list(found[path])}'
            for path in sorted(found.keys() - expected.keys())]
  lines += [
      f'  shape: {path} is {list(found[path])}, the model needs {list(expected[path])}'
      for path in sorted(expected.keys() & found.keys())
      if tuple(found[path]) != expected[path]]
  if lines:
    raise CheckpointError(
        f'The parameters in {source} are not those of the model described by its configuration '
        f'({len(lines)} differences); use the configuration that they were made with:\n'
        + '\n'.join(lines))
