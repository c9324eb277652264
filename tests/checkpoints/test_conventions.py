"""How many ids are of a vocabulary: T5's, mT5's, UMT5's and MADLAD's numbers, and what is told of them."""

import json
import types

import pytest

from specdec_jax.checkpoints import conventions
from specdec_jax.errors import CheckpointError
from specdec_jax.models.config import GPT2Config, T5Config


def config(rows):
  return T5Config(vocab_size=rows, emb_dim=8, num_heads=1, mlp_dim=8, num_encoder_layers=1, num_decoder_layers=1)


def vocabulary(folder, pieces, tokenizer=None):
  if tokenizer is not None:
    (folder / 'tokenizer_config.json').write_text(json.dumps(tokenizer))
  return types.SimpleNamespace(size=pieces, path=str(folder / 'spiece.model'), eos_id=1)


LISTED = [f'<extra_id_{i}>' for i in range(50)]


@pytest.mark.parametrize('pieces, rows, tokenizer, extra_ids, found, why', [
    (256_000, 256_000, {'extra_ids': 0}, None, 256_000, ''),  # MADLAD-400
    (256_000, 256_000, None, None, 256_000, ''),
    (256_000, 256_384, None, None, 256_300, 'assumed'),  # UMT5
    (256_000, 256_384, {'extra_ids': 0}, None, 256_000, 'tokenizer_config.json'),
    (256_000, 256_384, {'extra_ids': 300}, None, 256_300, 'tokenizer_config.json'),
    (250_000, 250_112, None, None, 250_100, 'assumed'),
    (250_000, 250_000, None, None, 250_000, ''),
    (250_100, 250_112, {'extra_ids': 0}, None, 250_100, 'tokenizer_config.json'),  # mT5's are among the pieces
    (32_000, 32_128, None, None, 32_100, 'assumed'),  # T5
    (32_000, 32_000, None, None, 32_000, ''),
    (32_000, 32_128, {}, None, 32_100, 'assumed'),
    (32_000, 32_128, {'extra_ids': 7}, 9, 32_009, '--extra_ids'),
    (32_000, 32_128, {'additional_special_tokens': [*LISTED, '<x>', 7]}, None, 32_050, 'tokenizer_config.json'),
    (32_000, 32_128, {'additional_special_tokens': [{'content': '<extra_id_0>'}]}, None, 32_001, 'tokenizer_config'),
    (32_100, 32_128, {'additional_special_tokens': LISTED}, None, 32_100, 'assumed'),  # no room: they are pieces
    (100, 128, None, None, 100, 'assumed'), (100, 128, None, 28, 128, '--extra_ids')])
def test_num_pieces(tmp_path, pieces, rows, tokenizer, extra_ids, found, why):
  number, told = conventions.num_pieces(config(rows), vocabulary(tmp_path, pieces, tokenizer), extra_ids)
  assert number == found
  if rows == pieces:
    assert told == []
    return
  assert len(told) == 1 and f'{pieces} pieces, and {found - pieces} sentinels after them (' in told[0]
  assert why in told[0] and f'the last {rows - found} of {rows} rows are padding, which is never decoded' in told[0]


def test_decoder_only_vocabularies_have_no_sentinels(tmp_path):
  rows = GPT2Config(vocab_size=32_128, emb_dim=8, num_heads=1, num_layers=1, eos_id=0)
  assert conventions.num_pieces(rows, vocabulary(tmp_path, 32_000), None)[0] == 32_000


def test_more_than_there_are_rows_is_left_to_the_configuration_to_refuse(tmp_path):
  assert conventions.num_pieces(config(128), vocabulary(tmp_path, 100, {'extra_ids': 40}), None) == (140, [])


@pytest.mark.parametrize('extra', [-1, '100', True, 2.5, [1]])
def test_numbers_of_sentinels_that_cannot_be(tmp_path, extra):
  with pytest.raises(CheckpointError, match='tokenizer_config.json\': extra_ids is .*; it must be a whole number'):
    conventions.num_pieces(config(128), vocabulary(tmp_path, 100, {'extra_ids': extra}), None)
