"""What `inspect` says of directories: numbers by arithmetic, what an import would assume, damage."""

import json
import math
import shutil

import pytest
import tiny

from specdec_jax.checkpoints import formats, inspect
from specdec_jax.checkpoints.directory import save_model
from specdec_jax.cli import console
from specdec_jax.errors import CheckpointError
from specdec_jax.models.parameters import parameter_shapes

NATIVE = 'v1_1/t5x_native_float32/checkpoint_0'


@pytest.fixture
def model(tmp_path):
  save_model(tiny.random_t5(0).replace(vocabulary=tiny.vocabulary(tmp_path)), tmp_path / 'm', storage='int8')
  return tmp_path / 'm'


def test_a_model_directory(model):
  found = inspect.describe(model, verify=True)
  shapes = parameter_shapes(tiny.config())
  matrices = sum(math.prod(s) for n, s in shapes.items() if n.endswith(('kernel', 'token_embedder/embedding')))
  others = sum(map(math.prod, shapes.values())) - matrices
  assert found['parameters'] == matrices + others and found['dtypes'] == {'int8': matrices, 'float32': others}
  assert found['bytes'] == matrices + 4 * others
  assert (found['format'], found['architecture'], found['storage']) == ('model', 't5', 'int8')
  assert found['configuration']['emb_dim'] == 16 and found['vocabulary']['pieces'] == 19
  assert (found['checksums'], found['problems'], found['assumed']) == ('match', [], [])
  assert inspect.describe(model)['checksums'] == 'not compared'
  text = inspect.text(found)
  for words in ('a model directory of this project', 't5: vocab_size 24', '19 pieces, ends a text with id 1',
                f'{matrices:,} in int8', 'checksums     match'):
    assert words in text


def test_no_weights_are_read(model, t5x, monkeypatch):
  import tensorstore
  monkeypatch.setattr(tensorstore.TensorStore, 'read', None)
  monkeypatch.setattr('specdec_jax.checkpoints.storage.read', None)
  for path in (model, t5x / NATIVE):
    assert inspect.describe(path)['parameters'] > 1000


def test_damage_is_a_problem(model):
  file = next((model / 'weights').rglob('_METADATA'))
  content = bytearray(file.read_bytes())
  content[-1] ^= 1
  file.write_bytes(content)
  assert not inspect.describe(model)['problems'] or 'damaged' in inspect.describe(model)['problems'][0]
  found = inspect.describe(model, verify=True)
  assert found['checksums'] == 'differ' and "_METADATA' is not as it was written" in found['problems'][0]
  assert 'problem       ' in inspect.text(found)


def test_a_configuration_that_does_not_fit_or_is_damaged(model):
  fields = json.loads((model / 'config.json').read_text())
  (model / 'config.json').write_text(json.dumps({**fields, 'mlp_dim': 99}))
  assert 'the model needs [16, 99]' in inspect.describe(model)['problems'][0]
  (model / 'config.json').write_text('{')
  assert 'config.json' in inspect.describe(model)['problems'][0]


@pytest.mark.parametrize('path, kind, parameters', [
    (NATIVE, 't5x', None), ('v1_1/checkpoint_0', 't5x_orbax', None)])
def test_a_t5x_checkpoint(t5x, path, kind, parameters):
  found = inspect.describe(t5x / path)
  shapes = [leaf.shape for leaf in formats.open_checkpoint(t5x / path, kind).leaves.values()]
  assert found['format'] == kind and found['parameters'] == sum(map(math.prod, shapes))
  assert found['dtypes'] == {'float32': found['parameters']} and not found['problems']
  assert "mlp_activations = ('gelu', 'linear')" in found['assumed'][-1]


@pytest.mark.parametrize('family, architecture', [('umt5', 't5'), ('gpt2', 'gpt2')])
def test_a_hugging_face_checkpoint(hf, family, architecture):
  found = inspect.describe(hf / family / 'target')
  assert (found['architecture'], found['vocabulary'], found['problems']) == (architecture, None, [])
  assert 'No vocabulary was found' in found['assumed'][0] and 'vocabulary    none' in inspect.text(found)
  json.dumps(found)


def test_a_checkpoint_that_cannot_be_imported(hf, tmp_path):
  source = shutil.copytree(hf / 'mt5' / 'draft', tmp_path / 'x')
  fields = json.loads((source / 'config.json').read_text())
  (source / 'config.json').write_text(json.dumps({**fields, 'd_ff': 7}))
  found = inspect.describe(source)
  assert found['parameters'] > 1000 and 'the model needs' in found['problems'][0]
  (source / 'config.json').write_text(json.dumps({**fields, 'd_ff': 'x'}))
  assert "d_ff is 'x'" in inspect.describe(source)['problems'][0]


def test_directories_of_neither(tmp_path, t5x):
  with pytest.raises(CheckpointError, match='holds no checkpoint'):
    inspect.describe(tmp_path)
  with pytest.raises(CheckpointError, match='one of these does'):
    inspect.describe(t5x / 'v1_1')
  with pytest.raises(CheckpointError, match='does not exist'):
    inspect.describe(tmp_path / 'none')
  (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-1000"')
  with pytest.raises(CheckpointError, match='a TensorFlow checkpoint'):
    inspect.describe(tmp_path)


def test_the_subcommand(model, capsys):
  assert console.main(['specdec_jax', 'inspect', str(model), '--verify', '--json']) == 0
  assert json.loads(capsys.readouterr().out)['checksums'] == 'match'
  (model / 'spiece.model').write_bytes(b'x')
  assert console.main(['specdec_jax', 'inspect', str(model), '--noverify', '--nojson']) == 1
  out, err = capsys.readouterr()
  assert 'not a SentencePiece model' in out
  assert err == f"specdec_jax inspect: error: '{model}' has problems, named above.\n"
