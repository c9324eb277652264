"""Which axis of a ('data', 'model') mesh each parameter is split along: T5X's logical axes."""

import math
import re

import jax
import numpy as np
from flax import traverse_util
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from specdec_jax.errors import SettingError

# T5X's axes 'heads', 'mlp' and 'vocab' go to 'model'; 'embed' is whole on every device.
RULES = (
    (r'.*/(query|key|value)/kernel', P(None, 'model')),  # embed x heads
    (r'.*/out/kernel', P('model', None)),  # heads x embed
    (r'.*/rel_embedding', P('model', None)),  # heads x buckets
    (r'.*/wi(_\d+)?/kernel', P(None, 'model')),  # embed x mlp
    (r'.*/wo/kernel', P('model', None)),  # mlp x embed
    (r'token_embedder/embedding', P('model', None)),  # vocab x embed
    (r'decoder/logits_dense/kernel', P(None, 'model')),  # embed x vocab
    (r'.*/(query|key|value)/bias', P('model')),  # heads, of GPT-2
    (r'.*/wi/bias', P('model')),  # mlp
    (r'.*/(scale|bias)|position_embedder/embedding', P()),
)
_OF_HEADS = r'.*/(query|key|value|out|rel_embedding)(/kernel|/bias)?'


def make_mesh(devices, data: int = 1) -> Mesh:
  """All devices, `data` of them along the batch and the rest along the model."""
  devices = np.asarray(devices)
  if devices.size % data:
    raise SettingError(f'{devices.size} devices cannot be split into data = {data} equal parts.')
  return Mesh(devices.reshape(data, -1), ('data', 'model'))


def divided_sizes(config) -> dict[str, int]:
  """What a 'model' axis must divide, by its name in the configuration."""
  sizes = {'num_heads': config.num_heads, 'mlp_dim': config.mlp_dim}
  if not config.decoder_only:  # GPT-2's table of 50,257 rows stays whole
    sizes['vocab_size'] = config.vocab_size
  return sizes


def possible_parts(config) -> list[int]:
  """How many parts a model divides into, ascending."""
  most = math.gcd(*divided_sizes(config).values())
  return [n for n in range(1, most + 1) if most % n == 0]


def spec(path: str, shape: tuple[int, ...], num_heads: int, mesh: Mesh) -> P:
  """The partition of one parameter; whole where heads or the axis do not divide evenly."""
  rule = next((s for pattern, s in RULES if re.fullmatch(pattern, path)), None)
  if rule is None:
    raise SettingError(f"No partition rule for the parameter '{path}'.")
  size = mesh.shape['model']
  divided = [shape[i] for i, axis in enumerate(rule) if axis == 'model']
  if re.fullmatch(_OF_HEADS, path):
    divided.append(num_heads)
  return P() if any(d % size for d in divided) else rule


def shardings(model, mesh: Mesh, replicated: bool = False):
  """A NamedSharding for each of a model's parameters, as a tree like `model.params`."""
  flat = traverse_util.flatten_dict(model.params, sep='/')
  specs = {path: P() if replicated else spec(path, x.shape, model.config.num_heads, mesh)
           for path, x in flat.items()}
  return traverse_util.unflatten_dict({k: NamedSharding(mesh, v) for k, v in specs.items()}, sep='/')


def with_shardings(model, mesh: Mesh, replicated: bool = False):
  """A model of shapes, each with its sharding."""
  place = lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)
  return model.replace(params=jax.tree.map(place, model.params, shardings(model, mesh, replicated)))


def device_bytes(tree) -> int:
  """Bytes that one device holds of a pytree of shapes with shardings."""
  return sum(math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize
             for x in jax.tree.leaves(tree))
