"""config.json and generation_config.json: what is read, what is refused, and that each mistake is one line.

The special ids and activations that are expected are those of transformers 5.24's from_pretrained on such files.
"""

import json
import shutil

import pytest

from specdec_jax.checkpoints.formats import open_checkpoint
from specdec_jax.checkpoints.huggingface import gpt2, t5
from specdec_jax.errors import CheckpointError, SettingError


@pytest.fixture
def change(hf, tmp_path):
  """change(config, generation, family) -> a checkpoint with fields changed; ... takes one out, None a file."""
  def make(config=None, generation=(), family='t5_v1_1'):
    folder = tmp_path / 'checkpoint'
    shutil.copytree(hf / family / 'draft', folder, dirs_exist_ok=True)
    for name, changes in (('config.json', config or {}), ('generation_config.json', generation)):
      if changes is None:
        (folder / name).unlink()
        continue
      fields = json.loads((folder / name).read_text()) | dict(changes)
      (folder / name).write_text(json.dumps({k: v for k, v in fields.items() if v is not ...}))
    return folder
  return make


def config_of(folder):
  return open_checkpoint(folder, 'huggingface').config


def error_of(folder, kind=CheckpointError, **options):
  with pytest.raises(kind) as caught:
    open_checkpoint(folder, 'huggingface', **options)
  assert '\n' not in str(caught.value)
  return str(caught.value)


# ---- what transformers resolves

@pytest.mark.parametrize('config, generation, start, eos, pad', [
    ({}, {}, 0, (1,), 0),
    ({'eos_token_id': 84}, {}, 0, (1,), 0),  # generation_config.json goes before config.json
    ({}, {'eos_token_id': 84}, 0, (84,), 0),
    ({'eos_token_id': 84}, None, 0, (84,), 0),  # and config.json counts where that is not there
    ({'eos_token_id': [1, 84]}, None, 0, (1, 84), 0),
    ({}, {'eos_token_id': [5, 1, 84]}, 0, (5, 1, 84), 0),
    ({}, {'eos_token_id': [84]}, 0, (84,), 0),
    ({'decoder_start_token_id': 5}, {}, 0, (1,), 0),
    ({}, {'decoder_start_token_id': 7}, 7, (1,), 0),
    ({'decoder_start_token_id': ..., 'bos_token_id': 7}, None, 7, (1,), 0),
    ({}, {'decoder_start_token_id': ..., 'bos_token_id': 9}, 9, (1,), 0),
    ({'pad_token_id': 3}, None, 0, (1,), 3),
    ({'pad_token_id': 3}, {'pad_token_id': 4}, 0, (1,), 4)])
def test_special_ids(change, config, generation, start, eos, pad):
  found = config_of(change(config, generation))
  assert (found.decoder_start_id, found.eos_ids, found.eos_id, found.pad_id) == (start, eos, eos[0], pad)


@pytest.mark.parametrize('config, generation, values, assumed', [
    ({}, {}, (0, (1,), 0), set()),
    ({'eos_token_id': None}, None, (0, (1,), 0), {'eos_ids'}),
    ({}, {'eos_token_id': None, 'decoder_start_token_id': None, 'pad_token_id': None}, (0, (1,), 0),
     {'eos_ids', 'decoder_start_id', 'pad_id'}),
    ({'decoder_start_token_id': ..., 'pad_token_id': 3}, None, (3, (1,), 3), {'decoder_start_id'})])
def test_what_no_file_says_is_assumed(change, config, generation, values, assumed):
  reader = open_checkpoint(change(config, generation), 'huggingface')
  assert (reader.config.decoder_start_id, reader.config.eos_ids, reader.config.pad_id) == values
  assert reader.assumed == assumed


def test_gpt2_ids(change):
  assert config_of(change({}, {'eos_token_id': [7, 3]}, 'gpt2')).eos_ids == (7, 3)
  reader = open_checkpoint(change({'eos_token_id': None}, None, 'gpt2'), 'huggingface')
  assert reader.config.eos_ids == (95,) and reader.assumed == {'eos_ids'}  # the last, as in GPT-2's own


EXPLICIT = {'dense_act_fn': ..., 'is_gated_act': ...}


@pytest.mark.parametrize('config, activations', [
    ({}, ('gelu', 'linear')), ({'dense_act_fn': 'silu'}, ('silu', 'linear')),
    ({'dense_act_fn': 'gelu'}, ('gelu_exact', 'linear')), ({'dense_act_fn': 'swish'}, ('silu', 'linear')),
    ({'dense_act_fn': 'quick_gelu'}, ('quick_gelu', 'linear')), ({'is_gated_act': False}, ('gelu',)),
    ({'feed_forward_proj': 'relu'}, ('gelu', 'linear')),  # the explicit ones win
    ({'feed_forward_proj': 'relu', 'dense_act_fn': ...}, ('relu', 'linear')),
    ({'feed_forward_proj': 'relu', **EXPLICIT}, ('relu',)),
    ({'feed_forward_proj': 'gelu', **EXPLICIT}, ('gelu_exact',)),
    ({'feed_forward_proj': 'gated-gelu', **EXPLICIT}, ('gelu', 'linear')),
    ({'feed_forward_proj': 'gated-silu', **EXPLICIT}, ('silu', 'linear')),
    ({'feed_forward_proj': 'gated-gelu_new', **EXPLICIT}, ('gelu', 'linear')),
    ({'feed_forward_proj': 'gated-relu', **EXPLICIT}, ('relu', 'linear')),
    ({'feed_forward_proj': 'gated-hardswish', **EXPLICIT}, ('hard_swish', 'linear')),
    ({'feed_forward_proj': ..., **EXPLICIT}, ('relu',)),
    ({'feed_forward_proj': ..., 'model_type': 'mt5', **EXPLICIT}, ('gelu', 'linear'))])
def test_activations(change, config, activations):
  assert config_of(change(config)).mlp_activations == activations


@pytest.mark.parametrize('family, alias, name', [
    *(('t5_v1_1', *names) for names in t5.ALIASES.items()), *(('gpt2', *names) for names in gpt2.ALIASES.items())])
def test_fields_have_other_names(change, hf, family, alias, name):
  value = json.loads((hf / family / 'draft' / 'config.json').read_text())[name]
  plain = config_of(change(family=family))
  assert config_of(change({name: ..., alias: value}, family=family)) == plain
  assert config_of(change({alias: value}, family=family)) == plain


def test_numbers_without_a_fraction_and_null(change):
  plain = config_of(change({'num_decoder_layers': 1, 'num_layers': 1}))
  assert config_of(change({'num_decoder_layers': None, 'num_layers': 1.0, 'anything': [1]})) == plain


# ---- settings of a decode

@pytest.mark.parametrize('name, value', [
    ('num_beams', 4), ('length_penalty', 2.0), ('do_sample', True), ('repetition_penalty', 1.2), ('min_length', 5),
    ('max_new_tokens', 200), ('suppress_tokens', [3]), ('early_stopping', True)])
@pytest.mark.parametrize('place', ['generation', 'config'])
def test_settings_of_a_decode_are_told(change, name, value, place):
  folder = change({name: value}, None) if place == 'config' else change({}, {name: value})
  notes = open_checkpoint(folder, 'huggingface').notes
  assert len(notes) == 1 and f'{name} = {value!r}: settings of a decode' in notes[0]


def test_settings_of_sampling_are_told_where_it_samples(change):
  settings = {'temperature': 0.7, 'top_k': 40, 'top_p': 0.9}
  assert not open_checkpoint(change({}, settings), 'huggingface').notes
  notes = open_checkpoint(change({}, {**settings, 'do_sample': True}), 'huggingface').notes
  assert 'do_sample = True, temperature = 0.7, top_k = 40, top_p = 0.9' in notes[0]


@pytest.mark.parametrize('settings', [
    {'num_beams': 1, 'length_penalty': 1.0, 'max_length': 20, 'min_length': 0, 'do_sample': False, 'use_cache': True,
     'repetition_penalty': 1.0, 'no_repeat_ngram_size': 0, 'diversity_penalty': 0.0, 'num_beam_groups': 1,
     'bad_words_ids': None, 'suppress_tokens': [], 'guidance_scale': 1.0, 'temperature': 1.0, 'top_k': 50, 'top_p': 1.0,
     'typical_p': 1.0, 'output_scores': True, 'transformers_version': '4.1', '_from_model_config': True}])
def test_settings_that_do_nothing_are_not_told(change, settings):
  assert not open_checkpoint(change({}, settings), 'huggingface').notes
  assert not open_checkpoint(change(settings, None), 'huggingface').notes


@pytest.mark.parametrize('name, value', [
    ('no_repeat_ngram_size', 3), ('forced_bos_token_id', 7), ('forced_eos_token_id', 1), ('bad_words_ids', [[5, 6]]),
    ('begin_suppress_tokens', [3]), ('encoder_repetition_penalty', 1.5), ('guidance_scale', 2.0),
    ('stop_strings', ['.']), ('penalty_alpha', 0.6), ('sequence_bias', {'[1]': 2.0}), ('diversity_penalty', 0.5),
    ('encoder_no_repeat_ngram_size', 2), ('watermarking_config', {'bias': 1}), ('force_words_ids', [[3]])])
def test_settings_that_have_no_counterpart_are_refused_by_name(change, name, value):
  folder = change({}, {name: value})
  message = error_of(folder)
  assert f'{name} is {value!r}' in message and f'--ignore={name}' in message and 'generation_config.json' in message
  notes = open_checkpoint(folder, 'huggingface', ignore=[name]).notes
  assert len(notes) == 1 and f'{name} = {value!r}: ignored, as you asked' in notes[0]


def test_only_what_is_set_can_be_ignored(change):
  folder = change({}, {'no_repeat_ngram_size': 3, 'min_p': 0.1})
  message = error_of(folder, SettingError, ignore=['no_repeat_ngram_size', 'min_p'])
  assert "ignore names 'min_p'" in message and '(no_repeat_ngram_size)' in message  # min_p is of sampling alone
  folder = change({}, {'min_p': 0.1, 'do_sample': True})
  assert 'min_p is 0.1' in error_of(folder)


# ---- variants that are not known

@pytest.mark.parametrize('family, config, words', [
    ('t5_v1_1', {'model_type': 'bart'}, "model_type is 'bart': it is no T5"),
    ('t5_v1_1', {'model_type': None}, 'model_type is None'),
    ('t5_v1_1', {'model_type': ['t5']}, "model_type is ['t5']"),
    ('t5_v1_1', {'is_encoder_decoder': False}, 'is_encoder_decoder is False'),
    ('t5_v1_1', {'tie_encoder_decoder': True}, 'tie_encoder_decoder is True'),
    ('t5_v1_1', {'pruned_heads': {'0': [1]}}, "pruned_heads is {'0': [1]}"),
    ('t5_v1_1', {'quantization_config': {'bits': 4}}, "quantization_config is {'bits': 4}"),
    ('t5_v1_1', {'per_layer_config': {'0': {'d_ff': 8}}}, 'per_layer_config is'),
    ('t5_v1_1', {'hidden_size': 99}, 'd_model is 16 and hidden_size, another name of it, 99'),
    ('t5_v1_1', {'dense_act_fn': 'laplace'}, "dense_act_fn uses 'laplace'; known are relu, "),
    ('t5_v1_1', {'feed_forward_proj': 'gated-xielu', **EXPLICIT}, "feed_forward_proj uses 'xielu'"),
    ('t5_v1_1', {'feed_forward_proj': 'gate-relu', **EXPLICIT}, "feed_forward_proj is 'gate-relu'; it must be"),
    ('t5_v1_1', {'feed_forward_proj': 'gated-', **EXPLICIT}, "feed_forward_proj is 'gated-'; it must be"),
    ('t5_v1_1', {'feed_forward_proj': 'gated-a-b', **EXPLICIT}, "feed_forward_proj is 'gated-a-b'"),
    ('gpt2', {'scale_attn_weights': False}, 'scale_attn_weights is False'),
    ('gpt2', {'scale_attn_by_inverse_layer_idx': True}, 'scale_attn_by_inverse_layer_idx is True'),
    ('gpt2', {'add_cross_attention': True}, 'add_cross_attention is True'),
    ('gpt2', {'activation_function': 'laplace'}, "activation_function uses 'laplace'"),
    ('gpt2', {'n_head': 5}, 'which 5 heads do not divide')])
def test_variants_that_are_not_known_are_named(change, family, config, words):
  message = error_of(change(config, family=family))
  assert words in message and "checkpoint/config.json': " in message


# ---- wrong values: each field with each

SIZES = ('vocab_size', 'd_model', 'num_heads', 'd_kv', 'd_ff', 'num_layers', 'num_decoder_layers',
         'relative_attention_num_buckets', 'relative_attention_max_distance')
GPT2_SIZES = ('vocab_size', 'n_embd', 'n_head', 'n_layer', 'n_inner', 'n_positions')
WRONG = {
    'size': ('16', '', 2.5, -1, 0, [16], {}, True, float('nan'), float('inf'), -(10 ** 30)),
    'id': ('1', -1, 96, 10 ** 9, 2.5, [], {}, True, float('nan'), [-1], [1, '2'], [1, 96], [[1]], [None]),
    'one id': ('1', -1, 96, 10 ** 9, 2.5, [1], [], {}, True),
    'real': ('1e-6', -1e-6, 2.0, [1e-6], {}, True, float('nan'), float('inf')),
    'flag': ('true', 1, 0, [], {}, 0.5),
    'text': (7, True, [], {}, '', ['relu'])}
CASES = [
    *(('t5_v1_1', 'config', name, 'size') for name in SIZES),
    *(('gpt2', 'config', name, 'size') for name in GPT2_SIZES),
    ('t5_v1_1', 'config', 'eos_token_id', 'id'), ('t5_v1_1', 'generation', 'eos_token_id', 'id'),
    ('gpt2', 'generation', 'eos_token_id', 'id'),
    *(('t5_v1_1', place, name, 'one id') for place in ('config', 'generation')
      for name in ('decoder_start_token_id', 'pad_token_id')),
    *(('t5_v1_1', 'config', name, 'real') for name in ('layer_norm_epsilon', 'dropout_rate')),
    *(('gpt2', 'config', name, 'real') for name in ('layer_norm_epsilon', 'resid_pdrop')),
    *(('t5_v1_1', 'config', name, 'flag') for name in ('is_gated_act', 'tie_word_embeddings', 'scale_decoder_outputs')),
    *(('t5_v1_1', 'config', name, 'text') for name in ('dense_act_fn', 'feed_forward_proj')),
    ('gpt2', 'config', 'activation_function', 'text')]


@pytest.mark.parametrize('family, place, name, kind', CASES, ids=lambda x: x)
def test_wrong_values_are_told_with_file_field_and_value(change, family, place, name, kind):
  for value in WRONG[kind]:
    folder = change({name: value}, None, family) if place == 'config' else change({}, {name: value}, family)
    message = error_of(folder)
    shown = value[0] if isinstance(value, list) and value and not isinstance(value[0], list) else value
    assert name in message and f"{'generation_' if place == 'generation' else ''}config.json'" in message, message
    assert repr(shown)[:60] in message or 'empty' in message or repr(value[-1]) in message, message


@pytest.mark.parametrize('name', SIZES[:6])
def test_missing_sizes_are_named(change, name):
  for value in (..., None):
    assert error_of(change({name: value})).endswith(f"config.json' has no '{name}'.")


@pytest.mark.parametrize('content', ['', '{', '[]', 'null', '7', '"x"', '{"a": 1}x', '{"d_model": 1, "d_model": 2}',
                                     '[' * 100_000, '{"a":' * 100_000, '\udcff', 'NaN', '{"x": ' + '9' * 5000 + '}'])
@pytest.mark.parametrize('name', ['config.json', 'generation_config.json'])
def test_files_that_are_no_object(change, name, content):
  folder = change()
  (folder / name).write_bytes(content.encode(errors='surrogateescape'))
  assert f"checkpoint/{name}'" in error_of(folder)
