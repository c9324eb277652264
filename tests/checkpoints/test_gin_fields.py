"""What a gin file says of a configuration, read beside gin."""

import gin
import pytest

from specdec_jax.checkpoints.gin_fields import fields_from_gin
from specdec_jax.cli import configurables  # noqa: F401, registers T5Config
from specdec_jax.errors import CheckpointError
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.models.known import known_fields


def read(folder, text, kind=T5Config):
  file = folder / 'model.gin'
  file.write_text(text)
  return fields_from_gin(file, kind)


@pytest.mark.parametrize('text, kind, fields', [
    ("some.other.setting = 3\nT5Config.emb_dim = 64\nT5Config.mlp_activations = ('silu',)\n", T5Config,
     {'emb_dim': 64, 'mlp_activations': ('silu',)}),
    ('T5Config:\n  emb_dim = 64  # wide\n  eos_ids = (1,\n    2)\n', T5Config, {'emb_dim': 64, 'eos_ids': (1, 2)}),
    ('WIDTH = 64\nT5Config.emb_dim = %WIDTH\nT5Config.eos_ids = (1, %END)\nEND = 5', T5Config,
     {'emb_dim': 64, 'eos_ids': (1, 5)}),
    ('train.config = @T5Config()\nT5Config.emb_dim = 1\nT5Config.emb_dim = 2\ndraft/T5Config.emb_dim = 3', T5Config,
     {'emb_dim': 2}),
    ('import math\nGPT2Config.emb_dim = 1\nT5Config.emb_dim = 2', GPT2Config, {'emb_dim': 1}),
    ("T5Config.mlp_activations = ('silu', 'linear')\nT5Config.name = 't5_1_1_small'", T5Config,
     {**known_fields('t5_1_1_small'), 'mlp_activations': ('silu', 'linear')}),
    ("include 'gin/models/gpt2_6m.gin'\nGPT2Config.dropout_rate = 0.1", GPT2Config,
     {**known_fields('gpt2_6m'), 'dropout_rate': 0.1}),
])
def test_fields(tmp_path, text, kind, fields):
  assert read(tmp_path, text, kind) == fields


@pytest.mark.parametrize('text, message', [
    ('T5Config.emb_dmi = 3', 'T5Config has no emb_dmi; it has '), ('other.x = 3', 'sets nothing of T5Config'),
    ('T5Config.emb_dim = = 3', 'model.gin'), ("T5Config.name = 'gpt2'", "T5Config.name is 'gpt2', which is not known"),
    ('T5Config.emb_dim = %NONE', 'T5Config.emb_dim is %NONE, which the file does not set'),
    ('T5Config.emb_dim = @other', 'T5Config.emb_dim is @other; it must be a value'),
    ("include 'nothing.gin'", "There is no gin file 'nothing.gin'"), ("include '{file}'", 'includes itself')])
def test_mistakes_are_one_line(tmp_path, text, message):
  with pytest.raises(CheckpointError, match=message) as caught:
    read(tmp_path, text.format(file=tmp_path / 'model.gin'))
  assert '\n' not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
  with pytest.raises(CheckpointError, match=r"no gin file '.*nothing.gin'"):
    fields_from_gin(tmp_path / 'nothing.gin', T5Config)


def test_a_running_configuration_stays_as_it_is(tmp_path):
  gin.parse_config("T5Config.name = 't5_1_1_xxl'\nNAME = 3")
  before = gin.config_str()
  read(tmp_path, 'T5Config.emb_dim = 64\nNAME = 4')
  assert gin.config_str() == before and gin.get_bindings('T5Config') == {'name': 't5_1_1_xxl'}
