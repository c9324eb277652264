"""Known models: their published sizes, and that gin, the planner and Python mean the same by a name."""

import dataclasses
import math
import pathlib

import gin
import pytest

from specdec_jax.checkpoints.directory import read_config
from specdec_jax.checkpoints.gin_fields import fields_from_gin
from specdec_jax.cli import configurables  # noqa: F401, registers T5Config
from specdec_jax.errors import SettingError
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.models.known import CONFIGURABLES, known_config, known_fields, known_names, names_like
from specdec_jax.models.parameters import parameter_shapes
from specdec_jax.paths import resolve
from specdec_jax.tpu import shapes

MODELS = pathlib.Path(__file__).parents[2] / 'gin' / 'models'


@pytest.mark.parametrize('name, millions', [
    # In millions, as the released checkpoints count; the paper's GPT-like pair with tied logits.
    ('t5_1_0_small', 60.5), ('t5_1_0_base', 222.9), ('t5_1_0_large', 737.7), ('t5_1_0_3b', 2852), ('t5_1_0_11b', 11307),
    ('t5_1_1_small', 77.0), ('t5_1_1_base', 247.6), ('t5_1_1_large', 783.2), ('t5_1_1_xl', 2850), ('t5_1_1_xxl', 11135),
    ('mt5_small', 300.2), ('mt5_base', 582.4), ('mt5_large', 1229.6), ('mt5_xl', 3742.6), ('mt5_xxl', 12921),
    ('umt5_small', 306.6), ('umt5_base', 592), ('umt5_xl', 3768), ('umt5_xxl', 13000),
    ('madlad400_3b', 2940), ('madlad400_7b', 8300), ('madlad400_10b', 10700), ('ul2_20b', 19460), ('aya_101', 12921),
    ('byt5_small', 300), ('byt5_base', 582), ('byt5_large', 1230), ('byt5_xl', 3740), ('byt5_xxl', 12900),
    ('codet5_small', 60.5), ('codet5p_220m', 223), ('codet5p_770m', 738), ('chronos_t5_tiny', 8.4),
    ('chronos_t5_small', 46.2), ('chronos_t5_base', 201), ('chronos_t5_large', 709), ('long_t5_local_base', 248),
    ('long_t5_tglobal_xl', 2850), ('gpt2', 124.4), ('gpt2_medium', 354.8), ('gpt2_large', 774.0), ('gpt2_xl', 1557.6),
    ('gpt2_97m', 91.5), ('gpt2_6m', 3.74)])
def test_published_numbers_of_parameters(name, millions):
  assert sum(map(math.prod, parameter_shapes(known_config(name)).values())) / 1e6 == pytest.approx(millions, rel=6e-3)


@pytest.mark.parametrize('name, fields', [
    ('t5_1_1_small', (512, 6, 64, 1024, 8, 8)), ('t5_1_1_base', (768, 12, 64, 2048, 12, 12)),
    ('t5_1_1_large', (1024, 16, 64, 2816, 24, 24)), ('t5_1_1_xl', (2048, 32, 64, 5120, 24, 24)),
    ('t5_1_1_xxl', (4096, 64, 64, 10240, 24, 24)), ('t5_1_0_11b', (1024, 128, 128, 65536, 24, 24))])
def test_published_sizes(name, fields):
  c = known_config(name)
  assert (c.emb_dim, c.num_heads, c.head_dim, c.mlp_dim, c.num_encoder_layers, c.num_decoder_layers) == fields
  assert c.vocab_size == 32128 and c.logits_via_embedding == (c.mlp_activations == ('relu',)) == ('1_0' in name)


def test_every_name_has_its_gin_file():
  assert sorted(f.stem for f in MODELS.glob('*.gin')) == known_names()
  assert sorted(known_names(T5Config) + known_names(GPT2Config)) == known_names()


@pytest.mark.parametrize('name', known_names())
def test_gin_the_planner_and_python_mean_the_same(name):
  gin.parse_config_file(str(MODELS / f'{name}.gin'))
  kind = type(known_config(name))
  assert gin.get_configurable(kind.__name__)() == known_config(name)
  assert fields_from_gin(MODELS / f'{name}.gin', kind) == known_fields(name)
  assert shapes.abstract_model(name).config == known_config(name, dtype='bfloat16')


@pytest.mark.parametrize('name', ['ende_target', 'ende_draft', 'lm_target', 'lm_draft'])
def test_the_shipped_models_have_their_sizes(name):
  pair, which = name.split('_')
  config, _ = read_config(resolve(f'embedded:{pair}/{which}'))
  assert {field: getattr(config, field) for field in known_fields(name)} == known_fields(name)


def test_fields_change_a_known_model_in_any_order():
  gin.parse_config("T5Config.dropout_rate = 0.1\nT5Config.name = 'umt5_small'\nT5Config.emb_dim = 768")
  config = gin.get_configurable('T5Config')()
  assert config == known_config('umt5_small', emb_dim=768, dropout_rate=0.1)
  gin.parse_config("T5Config.name = 't5_1_1_small'")  # nothing of the other stays
  assert gin.get_configurable('T5Config')() == known_config('t5_1_1_small', emb_dim=768, dropout_rate=0.1)


def test_without_a_name_sizes_are_ones_own():
  own = dict(emb_dim=16, num_heads=2, mlp_dim=32, num_encoder_layers=1, num_decoder_layers=1)
  assert CONFIGURABLES['T5Config'](**own) == T5Config(**own)


@pytest.mark.parametrize('setting, message', [
    ({'name': 't5_xxxl'}, r"T5Config.name is 't5_xxxl', which is not known; known are aya_101, .*umt5_xxl\."),
    ({'name': 'gpt2'}, "T5Config.name is 'gpt2', which is not known"), ({'name': 3}, 'T5Config.name is 3,'),
    ({'emb_dim': 16}, 'T5Config.num_heads is not set; set it, or include a file of gin/models'),
    ({'name': 't5_1_1_xl', 'emb_dim': '16'}, "T5Config.emb_dim is '16'")])
def test_mistakes(setting, message):
  with pytest.raises(SettingError, match=message):
    CONFIGURABLES['T5Config'](**setting)


def test_conventions_of_families():
  c = known_config('madlad400_3b')
  assert (c.vocab_size, c.pad_id, c.eos_ids, c.decoder_start_id) == (256_000, 1, (2,), 0)
  assert known_config('ul2_20b').mlp_activations == ('silu', 'linear')
  assert known_config('pile_t5_base').relative_bias_per_layer and known_config('pile_t5_base').eos_id == 2
  assert known_config('long_t5_tglobal_base').encoder_attention == 'transient_global'


def test_names_of_a_configuration():
  assert names_like(known_config('t5_1_1_xl', dtype='bfloat16', num_pieces=32100)) == ['t5_1_1_xl']
  assert names_like(known_config('mt5_xxl')) == ['aya_101', 'mt5_xxl']
  assert names_like(known_config('gpt2', emb_dim=12)) == []


def test_unknown_names_in_python():
  with pytest.raises(SettingError, match="the model is 'bert', which is not known; known are aya_101"):
    known_config('bert')
  with pytest.raises(SettingError, match="There is no model 'bert': give a model directory or one of aya_101"):
    shapes.abstract_model('bert')


def test_fields_that_are_handed_out_are_copies():
  known_fields('gpt2')['emb_dim'] = 3
  assert known_config('gpt2').emb_dim == 768
  assert dataclasses.replace(known_config('gpt2'), num_layers=1).num_layers == 1
