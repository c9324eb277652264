"""T5X trees of other networks than its minimal one: fused kernels, axes for heads, scans, UL2's last norm, LongT5."""

import dataclasses
import functools
import pathlib

import numpy as np
import pytest
from flax import traverse_util

from specdec_jax.checkpoints.directory import load_model
from specdec_jax.checkpoints.importer import import_checkpoint
from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.checkpoints.source import prepare
from specdec_jax.checkpoints.t5x import native_writer
from specdec_jax.checkpoints.writers import Export
from specdec_jax.errors import CheckpointError

FAMILIES = pathlib.Path(__file__).parents[2] / 'fixtures' / 'families'


@pytest.fixture(scope='module')
def model(tmp_path_factory):
  """model(family) -> its Model."""
  @functools.cache
  def load(family):
    folder = tmp_path_factory.mktemp(family) / 'model'
    import_checkpoint(FAMILIES / family, folder, 'huggingface', note=lambda sentence: None)
    return load_model(folder)
  return load


def flat(model):
  return {path: np.asarray(value) for path, value in traverse_util.flatten_dict(model.params, sep='/').items()}


def written(tree, config, folder):
  """A checkpoint of T5X's own format that holds a tree."""
  leaves = {path: Leaf(value.shape, value.dtype.name) for path, value in tree.items()}
  native_writer.write(folder, Export(config=config, vocabulary=None, leaves=leaves, read=tree.__getitem__,
                                     place=str(folder), step=0))
  return folder / 'checkpoint_0'


def gin(folder, config, *names):
  (folder / 'model.gin').write_text('\n'.join(f'T5Config.{name} = {getattr(config, name)!r}' for name in names))
  return folder / 'model.gin'


def assert_same(source, wanted):
  """A prepared checkpoint holds the leaves that are wanted, bit for bit."""
  assert source.reader.leaves.keys() == wanted.keys()
  for path, value in wanted.items():
    found = source.reader.read(path)
    assert source.reader.leaves[path] == Leaf(found.shape, found.dtype.name)
    np.testing.assert_array_equal(found, value, err_msg=path)


def fused(tree, heads):
  """With `wi_fused`, `qkv_fused`, `kv_fused` and an axis for the heads of what stays apart."""
  made = dict(tree)
  for path in tree:
    owner = path.rpartition('/')[0].rpartition('/')[0]
    split = lambda name, owner=owner: tree[f'{owner}/{name}/kernel'].reshape(32, heads, -1)
    if path.endswith('/query/kernel'):
      names = ('query', 'key', 'value') if path.startswith('encoder') else ('key', 'value')
      kind = 'qkv_fused' if len(names) == 3 else 'kv_fused'
      made[f'{owner}/{kind}/kernel'] = np.stack([split(name) for name in names], axis=1)
      made[f'{owner}/query/kernel'] = split('query')
      made[f'{owner}/out/kernel'] = tree[f'{owner}/out/kernel'].reshape(heads, -1, 32)
      for name in names:
        del made[f'{owner}/{name}/kernel']
    if path.endswith('/wi_0/kernel'):
      made[f'{owner}/wi_fused/kernel'] = np.stack([made.pop(f'{owner}/wi_{i}/kernel') for i in (0, 1)], axis=1)
  return made


def scanned(tree, layers):
  """Layers on axis 1, as scalable_t5 has them."""
  made = {path: value for path, value in tree.items() if '/layers_' not in path}
  for path in tree:
    stack, _, rest = path.partition('/layers_0/')
    if rest:
      made[f'{stack}/{stack}/{rest}'] = np.stack([tree[f'{stack}/layers_{i}/{rest}'] for i in range(layers)], axis=1)
  return made


def test_fused_kernels_and_axes_for_heads(model, tmp_path):
  m = model('flan_t5')
  tree = flat(m)
  source = prepare(written(fused(tree, 4), m.config, tmp_path), 't5x')
  assert_same(source, tree)
  assert source.config == dataclasses.replace(m.config, dropout_rate=0.0, scale_tied_logits=True)  # of no use


def test_a_scanned_tree_of_pile_t5_fused_or_not(model, tmp_path):
  m = model('pile_t5')
  tree = flat(m)
  for name, made in (('plain', scanned(tree, 2)), ('fused', scanned(fused(tree, 4), 2))):
    (tmp_path / name).mkdir()
    source = prepare(written(made, m.config, tmp_path / name), 't5x', gin_file=gin(tmp_path, m.config, 'eos_ids'))
    assert_same(source, tree)
    assert source.config.relative_bias_per_layer and source.config.eos_ids == (2,)


def test_ul2_asks_for_its_activation_and_has_a_last_norm_of_ones(model, tmp_path):
  m = model('ul2')
  tree = {path: value for path, value in flat(m).items() if path != 'decoder/decoder_norm/scale'}
  checkpoint = written(tree, m.config, tmp_path)
  with pytest.raises(CheckpointError, match='as UL2 and Flan-UL2, whose activation is silu.*--activation=silu'):
    prepare(checkpoint, 't5x')
  source = prepare(checkpoint, 't5x', activation='silu')
  assert source.config.mlp_activations == ('silu', 'linear') and source.config.logits_via_embedding
  assert_same(source, {**tree, 'decoder/decoder_norm/scale': np.ones(32, np.float32)})
  assert any('last norm has no scale' in note for note in source.assumed)


def test_a_last_norm_that_is_missing_elsewhere_is_an_error(model, tmp_path):
  m = model('flan_t5')
  tree = {path: value for path, value in flat(m).items() if path != 'decoder/decoder_norm/scale'}
  with pytest.raises(CheckpointError, match='missing: decoder/decoder_norm/scale'):
    prepare(written(tree, m.config, tmp_path), 't5x')


def test_padding_of_madlad(model, tmp_path):
  m = model('madlad400')
  checkpoint = written(flat(m), m.config, tmp_path)
  source = prepare(checkpoint, 't5x', gin_file=gin(tmp_path, m.config, 'pad_id', 'eos_ids'))
  assert (source.config.pad_id, source.config.eos_ids) == (1, (2,))
  assert source.assumed[-1].startswith('T5X pads every model with 0; here padding is 1')
  assert prepare(checkpoint, 't5x').config.pad_id == 0


@pytest.mark.parametrize('family, told', [('long_t5_local', 'full'), ('long_t5_tglobal', 'transient_global')])
def test_longt5(model, tmp_path, family, told):
  m = model(family)
  tree = flat(m)
  checkpoint = written(tree, m.config, tmp_path)
  source = prepare(checkpoint, 't5x')
  assert source.config.encoder_attention == told
  assert ("encoder_attention = 'full'" if told == 'full' else 'local_radius = 127') in ' '.join(source.assumed)
  given = prepare(checkpoint, 't5x', gin_file=gin(tmp_path, m.config, 'encoder_attention', 'local_radius',
                                                  'global_block_size'))
  assert_same(given, tree)
  assert given.config.encoder_attention == m.config.encoder_attention and given.config.local_radius == 5


@pytest.mark.parametrize('path, message', [
    ('encoder/layers_0/mlp/expert/wi/kernel', 'mixtures of experts, as in Switch'),
    ('decoder/layers_0/q_wi_fused/kernel', 'attention and feed-forward side by side')])
def test_other_networks_are_refused_in_one_line(model, tmp_path, path, message):
  m = model('flan_t5')
  with pytest.raises(CheckpointError, match=message) as e:
    prepare(written({**flat(m), path: np.zeros((2, 3, 4), np.float32)}, m.config, tmp_path), 't5x')
  assert '\n' not in str(e.value)


def test_a_fused_kernel_of_another_shape_is_refused(model, tmp_path):
  m = model('flan_t5')
  tree = fused(flat(m), 4)
  name = 'encoder/layers_0/attention/qkv_fused/kernel'
  with pytest.raises(CheckpointError, match='its second axis should be 3'):
    prepare(written({**tree, name: tree[name][:, :2]}, m.config, tmp_path), 't5x')


def test_metadata_of_flaxformer_is_passed_over(model, tmp_path):
  m = model('flan_t5')
  tree = flat(m)
  made = {**tree, 'encoder/__save_format_metadata__/__version__': np.zeros((), np.float32)}
  assert_same(prepare(written(made, m.config, tmp_path), 't5x'), tree)
