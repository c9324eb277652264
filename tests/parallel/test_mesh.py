"""A mesh changes where weights and rows lie, and no token; on eight virtual devices of a CPU."""

import pathlib

import jax
import numpy as np
import pytest
import tiny
import virtual_devices
from every_drafter import random_heads

from specdec_jax.checkpoints import storage
from specdec_jax.checkpoints.directory import load_model, save_model
from specdec_jax.checkpoints.heads import save_heads
from specdec_jax.parallel import mesh as mesh_lib
from specdec_jax.parallel.mesh import Mesh

HERE = pathlib.Path(__file__).parent
SHORT = ('one_sampled', 'refilled', 'one_sampledtree', '2x4_sampledtree')
LONG = ('one_greedy', '2x4_greedy', '1x8_sampled', '4x2_greedy', '1x8_greedy', '2x4_sampled', '4x2_sampled',
        '8x1_greedy', '8x1_sampled', 'carried', 'one_greedytree', '4x2_greedytree', '8x1_sampledtree',
        'one_sampledlayer', '2x4_sampledlayer', 'one_sampledparallel', '4x2_sampledparallel')


@pytest.fixture(scope='module')
def pair(tmp_path_factory):
  """A directory with target/ (8 heads) and draft/ (2 heads)."""
  directory = tmp_path_factory.mktemp('pair')
  save_model(tiny.random_t5(0, num_heads=8, head_dim=4), directory / 'target')
  save_model(tiny.random_t5(1), directory / 'draft')
  for kind in ('layer', 'parallel'):
    save_heads(random_heads(kind, 2, 16, 24, encoded=True), directory / kind)
  return directory


def on_eight_devices(directory, names):
  return virtual_devices.run(HERE / 'eight_devices.py', directory, *names)


def check_same(directory, names):
  read = lambda name: np.load(directory / f'{name}.npz')
  for name in names:
    ours, one = read(name), read('one_' + name.split('_')[1])
    for field in ('tokens', 'accepted', 'calls'):
      np.testing.assert_array_equal(ours[field], one[field], f'{field} of {name}')
    np.testing.assert_allclose(ours['scores'], one['scores'], atol=1e-3)


@pytest.fixture(scope='module')
def facts(pair):
  return on_eight_devices(pair, SHORT)


def test_every_mesh_gives_the_tokens_of_one_device(facts, pair):
  check_same(pair, [name for name in SHORT if name != 'refilled'])
  lengths = (np.load(pair / 'one_sampled.npz')['tokens'] > 0).sum(1)
  assert lengths.max() > 4 and len(set(lengths)) > 1, 'rows of several lengths'


def test_rows_that_are_filled_again_on_a_mesh(facts, pair):
  check_same(pair, ['4x2-refilled_sampled'])
  most = [1, 1] if jax.__version_info__ >= (0, 12) else [2, 4]  # jax 0.10 takes some equal layouts for others
  assert all(n <= m for n, m in zip(facts['refilled'], most, strict=True)), 'nothing compiles again'


def test_a_device_holds_its_part(facts):
  assert facts['held'] == {
      'query': [16, 8],  # 8 heads of 4 columns, in 4 parts
      'wo': [6, 16], 'embedding': [6, 16], 'norm': [16],
      'draft': [24, 16]}  # whole


def test_what_does_not_divide_is_refused_in_one_line(facts):
  assert facts['refused'] == [
      'Mesh.model = 4 does not divide this model (num_heads = 2, mlp_dim = 24, vocab_size = 24); 1, 2 '
      'would, or keep it whole on every device with load_model.replicated = True.',
      'Mesh(data=3, model=4) needs 12 devices, and there are 8 (cpu); data x model may be at most 8.',
      'A batch of 3 rows does not divide into Mesh.data = 2 parts; make it a multiple of 2.',
      "Target and draft lie on different meshes ({'data': 1, 'model': 2} and {'data': 2, 'model': 4}); "
      'load both with one mesh.']


def test_a_mesh_of_one_device(pair):
  plain, placed = load_model(pair / 'draft'), load_model(pair / 'draft', mesh=Mesh())
  np.testing.assert_array_equal(
      placed.params['token_embedder']['embedding'], plain.params['token_embedder']['embedding'])
  rows, none = mesh_lib.place_rows(placed, np.arange(3), None)
  assert none is None and rows.sharding.mesh.shape == {'data': 1, 'model': 1}
  with pytest.raises(ValueError, match='Mesh.data is 0'):
    Mesh(data=0)


def test_weights_are_placed_as_they_are_read(pair, monkeypatch):
  """No more than one part is on the host: each leaf is on the mesh before the next is read."""
  seen = []

  def read(directory, dtypes, parts, read=storage.read_as):
    for path, value in read(directory, dtypes, parts):
      seen.append(('read', path))
      yield path, value

  monkeypatch.setattr('specdec_jax.checkpoints.storage.read_as', read)
  place = mesh_lib.jax.make_array_from_callback

  def noted(*arguments):
    seen.append(('placed', None))
    return place(*arguments)

  monkeypatch.setattr(mesh_lib.jax, 'make_array_from_callback', noted)
  load_model(pair / 'draft', mesh=Mesh())
  assert [kind for kind, _ in seen] == ['read', 'placed'] * (len(seen) // 2)



@pytest.mark.long
def test_every_mesh_and_sampling(facts, pair):
  found = on_eight_devices(pair, LONG)
  check_same(pair, [name for name in LONG if name != 'carried'])
  assert found['carried'].count('f32[4,2,16,4]') == 2, 'keys and values: half the rows, a quarter of the heads'
  assert found['carried'].count('f32[4,2,16,8]') == 2, "the draft's: half the rows, all heads"
