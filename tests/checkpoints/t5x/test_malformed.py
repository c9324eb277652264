"""T5X checkpoints that are none, or damaged: each is told in one line with what is wrong and what to do."""

import json
import os
import shutil

import msgpack
import numpy as np
import pytest
import tensorstore as ts
import tiny
from flax import serialization, traverse_util

from specdec_jax.checkpoints.source import prepare
from specdec_jax.errors import CheckpointError
from specdec_jax.models.parameters import parameter_shapes

CONFIG = tiny.config(num_encoder_layers=1, num_decoder_layers=1)
NORM, EMBEDDING = 'decoder/decoder_norm/scale', 'token_embedder/embedding'
QUERY, MLP = 'decoder/layers_0/self_attention/query/kernel', 'decoder/layers_0/mlp/wi_0/kernel'
BIASES = [f'{stack}/relpos_bias/rel_embedding' for stack in ('decoder', 'encoder')]
COPY, WHICH = 'copy the checkpoint again', 'is it a T5X checkpoint?'


def folder_of(path):
  return f"target.{path.replace('/', '.')}"


def spec_of(path):
  return {'driver': 'zarr', 'kvstore': {'driver': 'file', 'path': f'{folder_of(path)}/'}}


def write_array(folder, value):
  ts.open({'driver': 'zarr', 'kvstore': {'driver': 'file', 'path': str(folder)}, 'dtype': value.dtype.name,
           'metadata': {'shape': list(value.shape), 'chunks': [max(n, 1) for n in value.shape]}},
          create=True).result().write(value).result()


def write_index(folder, target):
  put('checkpoint', serialization.msgpack_serialize({'version': 3, 'optimizer': {'target': target}}))(folder)


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  """A sound checkpoint in T5X's own format; not to be written to."""
  folder, shapes = tmp_path_factory.mktemp('whole') / 'checkpoint_5', parameter_shapes(CONFIG)
  folder.mkdir()
  for path, shape in shapes.items():
    write_array(folder / folder_of(path), np.ones(shape, np.float32))
  write_index(folder, traverse_util.unflatten_dict({path: spec_of(path) for path in shapes}, sep='/'))
  return folder


def told(folder, checkpoint_format):
  """What an import of a damaged checkpoint says: one line, or a line and the differences of its parameters."""
  with pytest.raises(CheckpointError) as caught:
    source = prepare(folder, checkpoint_format)
    for name in source.reader.leaves:
      source.reader.read(name)
  first, *others = str(caught.value).splitlines()
  assert len(first) < 700 and bool(others) == first.endswith('made with:'), first
  return str(caught.value)


# What may have happened to a checkpoint, as functions of its folder.


def put(name, content):
  """Another file under a name: bytes, 'pipe', 'directory', 'link' (to nowhere), 'loop', or nothing."""
  def change(folder):
    path = folder / name
    if path.is_dir():
      shutil.rmtree(path)
    path.unlink(missing_ok=True)
    make = {'pipe': os.mkfifo, 'directory': os.mkdir, 'loop': lambda p: os.symlink(p, p),
            'link': lambda p: os.symlink('nowhere', p), None: lambda p: None}
    make[content](path) if content in make else path.write_bytes(content)
  return change


def cut(name, length):
  return lambda folder: put(name, (folder / name).read_bytes()[:length])(folder)


def target(change):
  """The index with other weights: `change` of {path: spec}."""
  def rewrite(folder):
    index = serialization.msgpack_restore((folder / 'checkpoint').read_bytes())
    write_index(folder, change(index['optimizer']['target']))
  return rewrite


def leaf(path, change):
  """The index with another leaf: `change` of its spec, or a value."""
  def rewrite(tree):
    flat = traverse_util.flatten_dict(tree, sep='/', is_leaf=lambda _, x: 'driver' in x)
    flat[path] = change(flat[path]) if callable(change) else change
    return traverse_util.unflatten_dict({tuple(p.split('/')): x for p, x in flat.items()})
  return target(rewrite)


def other_spec(**changes):
  return leaf(NORM, lambda spec: {**spec, **changes})


def without(*prefixes):
  def rewrite(tree):
    flat = traverse_util.flatten_dict(tree, sep='/', is_leaf=lambda _, x: 'driver' in x)
    return traverse_util.unflatten_dict({p: x for p, x in flat.items() if not p.startswith(prefixes)}, sep='/')
  return target(rewrite)


def described(**changes):
  """Another description of the array of NORM."""
  def change(folder):
    path = folder / folder_of(NORM) / '.zarray'
    put(f'{folder_of(NORM)}/.zarray', json.dumps({**json.loads(path.read_text()), **changes}).encode())(folder)
  return change


def array(path, shape, dtype='float32'):
  def change(folder):
    shutil.rmtree(folder / folder_of(path))
    write_array(folder / folder_of(path), np.zeros(shape, dtype))
  return change


def index(content):
  return put('checkpoint', msgpack.packb(content))


def both(*changes):
  return lambda folder: [change(folder) for change in changes]


NATIVE = {
    # the index
    'empty': (put('checkpoint', b''), "checkpoint' is truncated or no T5X index", COPY),
    'a web page': (put('checkpoint', b'<!DOCTYPE html><title>404</title>'), 'truncated or no T5X index', COPY),
    'a pointer of git-lfs': (put('checkpoint', b'version https://git-lfs.github.com/spec/v1\n'), 'no T5X index', COPY),
    'text': (put('checkpoint', b'{"optimizer": {}}'), 'truncated or no T5X index', COPY),
    'half': (cut('checkpoint', 200), 'truncated or no T5X index', COPY),
    'one byte': (cut('checkpoint', 1), 'truncated or no T5X index', COPY),
    'more behind it': (lambda f: put('checkpoint', (f / 'checkpoint').read_bytes() + b'xy')(f), 'no T5X index', COPY),
    'a pipe': (put('checkpoint', 'pipe'), "The T5X index '", "checkpoint' is a pipe, not a file"),
    'a directory': (put('checkpoint', 'directory'), "holds no checkpoint (its 'checkpoint' is a directory)", 'name'),
    'a link to itself': (put('checkpoint', 'loop'), 'holds no checkpoint', 'name the directory of one'),
    'missing': (put('checkpoint', None), 'holds no checkpoint', 'name the directory of one'),
    'a list': (index([1, 2]), 'no T5X index', COPY),
    'a number': (index(5), 'no T5X index', COPY),
    'null': (index(None), 'no T5X index', COPY),
    'nested without end': (put('checkpoint', b'\x81\xa1a' * 5000 + b'\xc0'), 'no T5X index', COPY),
    'nested deeply': (put('checkpoint', b'\x81\xa9optimizer\x81\xa6target' + b'\x81\xa1a' * 900 + b'\xc0'),
                      'not an array', COPY),
    'of something else': (index({'version': 3}), "has neither 'optimizer'", WHICH),
    'optimizer null': (index({'optimizer': None}), 'has no weights under optimizer/target', WHICH),
    'optimizer a list': (index({'optimizer': [1]}), 'has no weights under optimizer/target', WHICH),
    'target null': (index({'optimizer': {'target': None}}), 'has no weights under optimizer/target', WHICH),
    'target text': (index({'optimizer': {'target': 'x'}}), 'has no weights under optimizer/target', WHICH),
    'target empty': (index({'optimizer': {'target': {}}}), "has no parameter like 'token_embedder", 'is incomplete'),
    'a numbered name': (index({'optimizer': {'target': {5: 1.0}}}), "checkpoint' ", COPY),
    # what it says of a parameter
    'leaf null': (leaf(NORM, None), f"'{NORM}' in '", 'is None, not an array', COPY),
    'leaf text': (leaf(NORM, 'x'), "is 'x', not an array", COPY),
    'leaf a number': (leaf(NORM, 3), 'is 3, not an array', COPY),
    'leaf a list': (leaf(NORM, [1.0]), 'is [1.0], not an array', COPY),
    'leaf of integers': (leaf(NORM, np.zeros(32, np.int32)), f'not floats: {NORM} (int32)', 'cannot be imported'),
    'leaf of complex numbers': (leaf(NORM, np.zeros(32, np.complex64)), f'{NORM} (complex64)', 'cannot be imported'),
    'leaf of one number': (leaf(NORM, 3.0), f'shape: {NORM} is [], the model needs'),
    'leaf empty': (leaf(NORM, {}), f'missing: {NORM}', 'use the configuration'),
    'leaf too short': (leaf(NORM, np.zeros(3, np.float32)), f'shape: {NORM} is [3], the model', 'use the conf'),
    'leaf too many': (leaf('extra', np.zeros(3, np.float32)), 'superfluous: extra [3]', 'use the configuration'),
    'driver a number': (other_spec(driver=5), "array 'target.decoder.decoder_norm.scale' of the kind 5", COPY),
    'driver n5': (other_spec(driver='n5'), "of the kind 'n5', which is none of T5X's", COPY),
    'no store': (other_spec(kvstore=None), 'names the array None', COPY),
    'path a number': (other_spec(kvstore={'path': 5}), 'names the array 5', COPY),
    'path empty': (other_spec(kvstore={'path': ''}), 'names the array None', COPY),
    'path outside': (other_spec(kvstore={'path': '../x'}), "names the array '../x'", COPY),
    'path absolute': (other_spec(kvstore={'path': '/etc'}), "names the array '/etc'", COPY),
    'name empty': (target(lambda t: {**t, '': np.ones(1)}), "a parameter named ''", COPY),
    'name with a slash': (target(lambda t: {**t, 'a/b': np.ones(1)}), "a parameter named 'a/b'", COPY),
    'name of two lines': (target(lambda t: {**t, 'a\nb': np.ones(1)}), r"a parameter named 'a\nb'", COPY),
    'no embedding': (without('token_embedder'), "has no parameter like 'token_embedder/embedding'", 'is incomplete'),
    'no biases': (without(*BIASES), 'relpos_bias', 'is incomplete, or no T5'),
    'no decoder': (without('decoder/'), "has no parameter like 'decoder/layers_", 'is incomplete, or no T5'),
    # the arrays
    'array missing': (lambda f: shutil.rmtree(f / folder_of(NORM)), f"(the first: '{NORM}')", 'copy it again'),
    'array a file': (put(folder_of(NORM), b'x'), f"(the first: '{NORM}')", 'copy it again'),
    'array a pipe': (put(folder_of(NORM), 'pipe'), "scale' is a pipe, not a file"),
    'chunk missing': (put(f'{folder_of(EMBEDDING)}/0.0', None), f"'{EMBEDDING}' of '", 'truncated or damaged', COPY),
    'chunk cut': (cut(f'{folder_of(EMBEDDING)}/0.0', 20), f"'{EMBEDDING}' of '", 'truncated or damaged', COPY),
    'chunk empty': (put(f'{folder_of(EMBEDDING)}/0.0', b''), f"'{EMBEDDING}' of '", 'truncated or damaged', COPY),
    'chunk of noise': (put(f'{folder_of(EMBEDDING)}/0.0', b'noise' * 99), f"'{EMBEDDING}' of '", 'damaged', COPY),
    'chunk a pipe': (put(f'{folder_of(EMBEDDING)}/0.0', 'pipe'), "embedding/0.0' is a pipe, not a file"),
    'chunk a directory': (put(f'{folder_of(EMBEDDING)}/0.0', 'directory'), f"'{EMBEDDING}' of '", COPY),
    'chunk a link': (put(f'{folder_of(EMBEDDING)}/0.0', 'link'), "0.0' is a link that leads nowhere", 'remove it, or'),
    'description missing': (put(f'{folder_of(NORM)}/.zarray', None), f"(the first: '{NORM}')", 'copy it again'),
    'description empty': (put(f'{folder_of(NORM)}/.zarray', b''), f"(the first: '{NORM}')", 'copy it again'),
    'description a list': (put(f'{folder_of(NORM)}/.zarray', b'[]'), f"(the first: '{NORM}')", 'copy it again'),
    'description cut': (cut(f'{folder_of(NORM)}/.zarray', 50), f"(the first: '{NORM}')", 'copy it again'),
    'description a pipe': (put(f'{folder_of(NORM)}/.zarray', 'pipe'), "scale/.zarray' is a pipe, not a file"),
    'half its bytes': (described(dtype='<f2'), f"'{NORM}' of '", 'truncated or damaged', COPY),
    'integers': (described(dtype='<i4'), f'{NORM} (int32)', 'cannot be imported'),
    'dtype unknown': (described(dtype='x'), f"(the first: '{NORM}')", 'copy it again'),
    'dtype a number': (described(dtype=5), f"(the first: '{NORM}')", 'copy it again'),
    'shape negative': (described(shape=[-1]), f"(the first: '{NORM}')", 'copy it again'),
    'shape text': (described(shape='32'), f"(the first: '{NORM}')", 'copy it again'),
    'shape without dimensions': (described(shape=[]), f"(the first: '{NORM}')", 'copy it again'),
    'shape with a fraction': (described(shape=[2.5]), f"(the first: '{NORM}')", 'copy it again'),
    'shape too short': (described(shape=[3]), f'shape: {NORM} is [3], the model needs', 'use the configuration'),
    'shape too long': (described(shape=[2 ** 62]), f'shape: {NORM} is [4611686018427387904]', 'use the configuration'),
    'chunks of nothing': (described(chunks=[0]), f"(the first: '{NORM}')", 'copy it again'),
    'another zarr': (described(zarr_format=3), f"(the first: '{NORM}')", 'copy it again'),
    'filters': (described(filters=[{'id': 'x'}]), f"(the first: '{NORM}')", 'copy it again'),
    'compressor unknown': (described(compressor={'id': 'lz77'}), f"(the first: '{NORM}')", 'copy it again'),
    'a pipe beside them': (put('stray', 'pipe'), "stray' is a pipe, not a file"),
    'a link beside them': (put('stray', 'link'), "stray' is a link that leads nowhere", 'remove it'),
    # sizes that are read off the shapes
    'embedding of one dimension': (array(EMBEDDING, 5), f"'{EMBEDDING}' in '", 'has shape [5], not two dimensions'),
    'embedding of three': (array(EMBEDDING, (5, 2, 2)), f"'{EMBEDDING}' in '", 'has shape [5, 2, 2], not two'),
    'embedding int8': (array(EMBEDDING, (40, 16), 'int8'), f'{EMBEDDING} (int8)', 'cannot be imported'),
    'embedding of no rows': (array(EMBEDDING, (0, 16)), 'are those of no T5: T5Config.vocab_size is 0'),
    'embedding of no columns': (array(EMBEDDING, (40, 0)), 'are those of no T5: T5Config.emb_dim is 0'),
    'query of no columns': (array(QUERY, (16, 0)), 'are those of no T5: T5Config.head_dim is 0'),
    'query of a column too many': (array(QUERY, (16, 17)), "which does not divide the query kernels' 17 columns"),
    'mlp of no columns': (array(MLP, (16, 0)), 'are those of no T5: T5Config.mlp_dim is 0'),
    'no heads': (both(*(array(bias, (0, 32)) for bias in BIASES)), 'the relative bias has 0 heads'),
    'one bucket': (both(*(array(bias, (2, 1)) for bias in BIASES)), 'are those of no T5: T5Config.num_buckets is 1'),
    'other heads in one stack': (array(BIASES[1], (3, 32)), f'shape: {BIASES[1]} is [3, 32]', 'use the configuration'),
    'a layer missing': (leaf('decoder/layers_2/x', np.ones(1, np.float32)), 'missing: decoder/layers_1/', 'use the'),
    'a layer of a million': (leaf('decoder/layers_999999/x', np.ones(1, np.float32)), 'are those of no T5',
                             'num_decoder_layers is 1000000'),
    'a layer of 5,000 digits': (leaf(f"decoder/layers_{'9' * 5000}/x", np.ones(1, np.float32)), 'superfluous: '),
}


@pytest.mark.parametrize('case', NATIVE)
def test_own_format(whole, tmp_path, case):
  change, *words = NATIVE[case]
  folder = shutil.copytree(whole, tmp_path / 'damaged', copy_function=os.link)
  change(folder)
  message = told(folder, 't5x')
  assert str(folder) in message and all(word in message for word in words), message


def metadata(change):
  def rewrite(folder):
    content = json.loads((folder / '_METADATA').read_text())
    put('_METADATA', json.dumps({**content, **change(content)}).encode())(folder)
  return rewrite


def tree(**changes):
  return metadata(lambda content: {'tree_metadata': {**content['tree_metadata'], **changes}})


def key(*names):
  return tree(x={'key_metadata': [{'key': name} for name in names]})


def data(change):
  """The same change of each file with numbers in it."""
  def of_all(folder):
    for file in folder.rglob('d/*'):
      change(file.relative_to(folder))(folder)
  return of_all


ORBAX = {
    'metadata empty': (put('_METADATA', b''), "The metadata '", "_METADATA' is truncated or not JSON", 'copy it again'),
    'metadata a web page': (put('_METADATA', b'<html>'), 'is truncated or not JSON', 'copy it again'),
    'metadata of bytes': (put('_METADATA', b'\x95\0\xff' * 9), 'is truncated or not JSON', 'copy it again'),
    'metadata a list': (put('_METADATA', b'[]'), 'is not a JSON object', 'copy it again'),
    'metadata null': (put('_METADATA', b'null'), 'is not a JSON object', 'copy it again'),
    'metadata nested': (put('_METADATA', b'[' * 100_000), 'is nested too deeply', 'copy it again'),
    'metadata a pipe': (put('_METADATA', 'pipe'), "_METADATA' is a pipe, not a file"),
    'metadata a directory': (put('_METADATA', 'directory'), "_METADATA' is a directory, not a file"),
    'metadata missing': (put('_METADATA', None), "has no file '_METADATA'", COPY),
    'no tree': (put('_METADATA', b'{}'), "is not Orbax's metadata, or damaged", COPY),
    'tree a list': (metadata(lambda _: {'tree_metadata': [1]}), "is not Orbax's metadata", COPY),
    'tree null': (metadata(lambda _: {'tree_metadata': None}), "is not Orbax's metadata", COPY),
    'tree empty': (metadata(lambda _: {'tree_metadata': {}}), "has no weights under 'target'", 'is it a T5X'),
    'entry null': (tree(x=None), "is not Orbax's metadata", COPY),
    'entry text': (tree(x='target'), "is not Orbax's metadata", COPY),
    'entry without a name': (tree(x={}), "is not Orbax's metadata", COPY),
    'name a number': (key(5), 'has a parameter without a name', COPY),
    'name of no parts': (key(), 'has a parameter without a name', COPY),
    'name outside': (key('target', '../../x'), "a parameter named '../../x'", COPY),
    'name of two lines': (key('target', 'a\nb'), r"a parameter named 'a\nb'", COPY),
    'array promised': (key('target', 'more'), "(the first: 'more')", 'copy it again'),
    'another zarr': (metadata(lambda _: {'use_zarr3': True}), 'cannot be opened', 'copy it again'),
    'another zarr by text': (metadata(lambda _: {'use_zarr3': 'yes'}), "is not Orbax's metadata", COPY),
    'manifest empty': (put('manifest.ocdbt', b''), 'cannot be opened', 'copy it again'),
    'manifest a web page': (put('manifest.ocdbt', b'<html>'), 'cannot be opened', 'copy it again'),
    'manifest cut': (cut('manifest.ocdbt', 60), 'cannot be opened', 'copy it again'),
    'manifest a pipe': (put('manifest.ocdbt', 'pipe'), "manifest.ocdbt' is a pipe, not a file"),
    'manifest a directory': (put('manifest.ocdbt', 'directory'), 'cannot be opened', 'copy it again'),
    'manifest missing': (put('manifest.ocdbt', None), 'cannot be opened', 'copy it again'),
    'index a pipe': (put('checkpoint', 'pipe'), "checkpoint' is a pipe, not a file"),
    'index a directory': (put('checkpoint', 'directory'), "checkpoint' is a directory, not a file"),
    'index a web page': (put('checkpoint', b'<html>'), 'no T5X index', COPY),
    'data missing': (data(lambda name: put(name, None)), 'cannot be opened', 'copy it again'),
    'data cut': (data(lambda name: cut(name, 20)), 'cannot be opened', 'copy it again'),
    'data a pipe': (data(lambda name: put(name, 'pipe')), 'is a pipe, not a file'),
}


@pytest.mark.parametrize('case', ORBAX)
def test_orbax(t5x, tmp_path, case):
  change, *words = ORBAX[case]
  folder = shutil.copytree(t5x / 'v1_1' / 'checkpoint_0' / 'state', tmp_path / 'damaged', copy_function=os.link)
  change(folder)
  message = told(folder, 't5x_orbax')
  assert str(folder) in message and all(word in message for word in words), message


def test_the_sound_one_is_read(whole):
  source = prepare(whole, 't5x')
  assert source.reader.leaves.keys() == parameter_shapes(CONFIG).keys()
  assert source.reader.read(NORM).tolist() == [1] * CONFIG.emb_dim
