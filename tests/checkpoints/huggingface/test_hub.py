"""Names of the Hugging Face hub, with a stand-in for huggingface_hub."""

import sys
import types

import pytest

from specdec_jax.checkpoints.huggingface import hub
from specdec_jax.checkpoints.importer import import_checkpoint, prepare
from specdec_jax.errors import CheckpointError


@pytest.fixture
def stand_in(hf, monkeypatch):
  """huggingface_hub with one model, whose asked-for files are kept in `.asked`."""
  files = ['.gitattributes', 'README.md', 'config.json', 'flax_model.msgpack', 'generation_config.json',
           'model.safetensors', 'onnx/model.safetensors', 'pytorch_model.bin', 'rust_model.ot', 'spiece.model',
           'tf_model.h5', 'tokenizer.json', 'tokenizer_config.json']
  module = types.SimpleNamespace(asked=None, files=files)

  def list_repo_files(self, name):
    if name != 'google/tiny-t5':
      raise OSError('404 Client Error\nRepository Not Found')
    return module.files

  def snapshot_download(name, allow_patterns):
    module.asked = allow_patterns
    return str(hf / 't5_v1_1' / 'draft')

  module.HfApi = type('HfApi', (), {'list_repo_files': list_repo_files})
  module.snapshot_download = snapshot_download
  monkeypatch.setitem(sys.modules, 'huggingface_hub', module)
  return module


def test_a_name_is_downloaded_and_imported(stand_in, tmp_path, hf):
  notes = []
  config = import_checkpoint('google/tiny-t5', tmp_path / 'model', 'huggingface', note=notes.append)
  assert config.emb_dim == 16 and (tmp_path / 'model' / 'config.json').exists()
  assert stand_in.asked == ['model.safetensors', 'config.json', 'generation_config.json', 'spiece.model',
                            'tokenizer.json', 'tokenizer_config.json']
  assert f"'google/tiny-t5' was downloaded from the Hugging Face hub to '{hf / 't5_v1_1' / 'draft'}'." in notes


def test_other_weights_are_asked_for_only_where_there_are_no_safetensors(stand_in):
  stand_in.files.remove('model.safetensors')
  hub.download('google/tiny-t5')
  assert stand_in.asked[0] == 'pytorch_model.bin' and 'tf_model.h5' not in stand_in.asked
  stand_in.files[:] = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors', 'config.json',
                       'model.safetensors.index.json', 'pytorch_model.bin']
  hub.download('google/tiny-t5')
  assert stand_in.asked == ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors',
                            'model.safetensors.index.json', 'config.json']


def test_what_the_hub_does_not_have_is_one_line(stand_in):
  with pytest.raises(CheckpointError, match=r"no directory 'google/none', and .*404 Client Error\)") as caught:
    prepare('google/none', 'huggingface')
  assert '\n' not in str(caught.value)


def test_a_directory_goes_before_a_name(stand_in, hf, tmp_path, monkeypatch):
  monkeypatch.chdir(hf)
  prepare('umt5/draft', 'huggingface')
  assert stand_in.asked is None


@pytest.mark.parametrize('path', ['google/flan t5', '/abs/path', 'a/b/c', 'name', '../x', './x/y', '~/x', 'gs://a/b',
                                  ''])
def test_paths_that_are_no_names(path):
  assert not hub.is_name(path)


def test_only_hugging_face_checkpoints_are_looked_for_there(stand_in):
  with pytest.raises(CheckpointError, match="google/tiny-t5' does not exist"):
    prepare('google/tiny-t5', 't5x')
  assert stand_in.asked is None


def test_without_the_library_the_commands_are_named(monkeypatch):
  monkeypatch.setitem(sys.modules, 'huggingface_hub', None)
  with pytest.raises(CheckpointError, match=r'pip install huggingface_hub, and run the same again; or '
                                            r'hf download google/flan-t5-small --local-dir flan-t5-small, and give '
                                            r'--input=flan-t5-small\.'):
    prepare('google/flan-t5-small', 'huggingface')
