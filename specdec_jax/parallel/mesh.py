"""A model on several devices: the mesh, its weights laid down shard by shard, and a batch's rows on it."""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P, SingleDeviceSharding

from specdec_jax import checks
from specdec_jax.errors import SettingError
from specdec_jax.models.parameters import parameter_shapes
from specdec_jax.parallel import partition


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mesh:
  """data x model devices of this process, the first of those that it has.

  Attributes:
    data: parts that the rows of a batch are split into.
    model: parts that the weights are split into, along heads, feed-forward units and vocabulary.
  """

  data: int = 1
  model: int = 1

  def __post_init__(self):
    for name in ('data', 'model'):
      object.__setattr__(self, name, checks.whole(f'Mesh.{name}', getattr(self, name), 1))

  def devices(self) -> jax.sharding.Mesh:
    """The jax mesh; ValueError where there are too few devices."""
    found, needed = jax.local_devices(), self.data * self.model
    if needed > len(found):
      raise SettingError(f'Mesh(data={self.data}, model={self.model}) needs {needed} devices, and there '
                       f'{"is" if len(found) == 1 else "are"} {len(found)} ({found[0].platform}); '
                       f'data x model may be at most {len(found)}.')
    return partition.make_mesh(found[:needed], self.data)


def placement(config, mesh: Mesh, replicated: bool = False) -> Callable[[str, np.ndarray], jax.Array]:
  """How a model's parameters come onto the mesh, one by one.

  Args:
    config: of the model.
    mesh: where to.
    replicated: every device holds all of it, whatever its sizes.

  Returns:
    `put(path, value)`, which sends each device its part of a parameter and no more.

  Raises:
    ValueError: the model's sizes do not divide into `mesh.model` parts.
  """
  devices, expected = mesh.devices(), parameter_shapes(config)
  if not replicated:
    _check_divides(config, mesh.model)

  def put(path, value):
    known = expected.get(path) == value.shape  # what is not is for the caller to refuse
    split = known and not replicated
    spec = partition.spec(path, value.shape, config.num_heads, devices) if split else P()
    return jax.make_array_from_callback(
        value.shape, NamedSharding(devices, spec), lambda index: value[index])

  return put


def state_shardings(state, config, mesh: Mesh | None):
  """Where each leaf of a training state lies: a tree like `state`.

  What has the name (the keys of its path) and shape of a parameter lies as that parameter,
  such as an optimiser's moments; the rest is whole on every device.

  Args:
    state: a pytree of arrays or shapes that holds parameters of a model.
    config: of the model.
    mesh: None is the default device.

  Raises:
    ValueError: as `placement`.
  """
  if mesh is None:
    default = SingleDeviceSharding(jax.local_devices()[0])
    return jax.tree.map(lambda _: default, state)
  devices, expected = mesh.devices(), parameter_shapes(config)
  _check_divides(config, mesh.model)

  def place(path, x):
    name = '/'.join(key.key for key in path if isinstance(key, jax.tree_util.DictKey))
    known = expected.get(name) == x.shape
    return NamedSharding(devices, partition.spec(name, x.shape, config.num_heads, devices) if known else P())

  return jax.tree_util.tree_map_with_path(place, state)


def _check_divides(config, parts: int) -> None:
  works = partition.possible_parts(config)
  if parts not in works:
    known = ', '.join(map(str, works))
    named = ', '.join(f'{name} = {size}' for name, size in partition.divided_sizes(config).items())
    raise SettingError(f'Mesh.model = {parts} does not divide this model ({named}); {known} would, or '
                     'keep it whole on every device with load_model.replicated = True.')


def place_rows(models, *rows):
  """Arrays [B, ...] split by rows over the 'data' axis of the mesh that the models lie on.

  Args:
    models: a pytree of the target and whatever drafts for it.
    rows: arrays, or None.

  Returns:
    The arrays; as they were where the models lie on one device.

  Raises:
    ValueError: the models lie on different meshes, or B does not divide.
  """
  meshes = {x.sharding.mesh for x in jax.tree.leaves(models)
            if isinstance(getattr(x, 'sharding', None), NamedSharding)}
  if not meshes:
    return rows
  if len(meshes) > 1:
    shapes = ' and '.join(sorted(str(dict(m.shape)) for m in meshes))
    raise SettingError(f'Target and draft lie on different meshes ({shapes}); load both with one mesh.')
  mesh = meshes.pop()
  batch, data = len(rows[0]), mesh.shape['data']
  if batch % data:
    raise SettingError(f'A batch of {batch} rows does not divide into Mesh.data = {data} parts; '
                     f'make it a multiple of {data}.')
  sharding = NamedSharding(mesh, P('data'))
  return tuple(None if x is None else jax.device_put(x, sharding) for x in rows)
