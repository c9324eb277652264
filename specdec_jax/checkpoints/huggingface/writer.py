"""Writes a checkpoint that transformers loads: config.json, generation_config.json, safetensors, the tokenizer."""

import json
from typing import Any

from etils import epath

from specdec_jax.checkpoints.huggingface import generation, layout, tokenizer
from specdec_jax.checkpoints.huggingface.safetensors_writer import new_file
from specdec_jax.checkpoints.huggingface.weight_files import INDEX, SAFETENSORS
from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.checkpoints.storage import num_bytes
from specdec_jax.checkpoints.writers import Export, writing
from specdec_jax.data.byte_vocabulary import BYTES, ByteVocabulary
from specdec_jax.data.tokenizers_vocabulary import TOKENIZER
from specdec_jax.data.vocabulary import Vocabulary

SHARD_BYTES = 5_000_000_000


def write(directory: epath.Path, model: Export, shard_bytes: int = SHARD_BYTES) -> list[str]:
  """See `exporter._WRITE`. All rows are written, those of padding too.

  Raises:
    SettingError: activations that transformers has not.
  """
  fields = _fields(model)
  _write_json(directory / 'config.json', fields)
  _write_json(directory / generation.FILE, layout.of_decoding(fields))
  _write_tokenizer(directory, model)
  shards = _shards(_leaves(model), shard_bytes)
  places = {}
  for number, leaves in enumerate(shards, 1):
    name = SAFETENSORS if len(shards) == 1 else f'model-{number:05d}-of-{len(shards):05d}.safetensors'
    with new_file(directory / name, leaves) as add:
      for parameter in leaves:
        add(parameter, layout.value(model.config, parameter, model.read))
    places.update(dict.fromkeys(leaves, name))
  if len(shards) > 1:
    total = sum(num_bytes(leaf.shape, leaf.dtype) for leaves in shards for leaf in leaves.values())
    _write_json(directory / INDEX, {'metadata': {'total_size': total}, 'weight_map': places})
  rows = model.config.vocab_size - (model.config.num_pieces or model.config.vocab_size)
  return [f'transformers does not mask the {rows} padding rows after the vocabulary.'] if rows else []


def _fields(model: Export) -> dict[str, Any]:
  """Of config.json."""
  config, dtypes = model.config, {leaf.dtype for leaf in model.leaves.values()}
  dtype = 'bfloat16' if 'bfloat16' in dtypes else 'float32'
  kind, name = 'gpt2', 'GPT2LMHeadModel'
  if not config.decoder_only:
    kind, family = (('umt5', 'UMT5') if config.relative_bias_per_layer else
                    ('longt5', 'LongT5') if config.encoder_attention != 'full' else ('t5', 'T5'))
    name = f'{family}ForConditionalGeneration'
  return {'model_type': kind, 'architectures': [name], 'is_encoder_decoder': not config.decoder_only,
          **layout.fields(config, config.vocab_size),
          'dtype': dtype, 'torch_dtype': dtype}  # the second is the name that it had


def _leaves(model: Export) -> dict[str, Leaf]:
  """What the files hold, in the order in which the model's leaves are read most cheaply."""
  order = {path: place for place, path in enumerate(model.leaves)}
  names = sorted(layout.names(model.config), key=lambda name: order[layout.own_paths(model.config, name)[0]])
  return {name: Leaf(layout.shape(model.config, name, lambda path: model.leaves[path].shape),
                     model.leaves[layout.own_paths(model.config, name)[0]].dtype) for name in names}


def _shards(leaves: dict[str, Leaf], most: int) -> list[dict[str, Leaf]]:
  """The leaves in files of at most so many bytes, or of one leaf."""
  shards: list[dict[str, Leaf]] = [{}]
  used = 0
  for name, leaf in leaves.items():
    size = num_bytes(leaf.shape, leaf.dtype)
    if shards[-1] and used + size > most:
      shards.append({})
      used = 0
    shards[-1][name] = leaf
    used += size
  return shards


def _write_tokenizer(directory: epath.Path, model: Export) -> None:
  """tokenizer.json, which transformers prefers, and a SentencePiece file where there is one."""
  vocabulary = model.vocabulary
  if vocabulary is None:
    return
  settings: dict[str, Any] = {'tokenizer_class': 'PreTrainedTokenizerFast'}
  files = dict(vocabulary.files)
  if isinstance(vocabulary, ByteVocabulary):
    files, settings = {}, {'tokenizer_class': 'ByT5Tokenizer', 'extra_ids': vocabulary.extra_ids}
    if vocabulary.added:  # transformers counts on from those that are listed
      settings['added_tokens_decoder'] = {
          str(i): {'content': vocabulary.pieces[i]} for i in range(BYTES, vocabulary.size)}
  elif isinstance(vocabulary, Vocabulary):
    made = tokenizer.of_vocabulary(vocabulary)
    files[TOKENIZER] = made.model_bytes
    settings['extra_ids'] = vocabulary.extra_ids
  pad = {} if model.config.decoder_only else {'pad_token': vocabulary.piece(model.config.pad_id)}
  _write_json(directory / tokenizer.CONFIG, {**settings, 'eos_token': vocabulary.pieces[vocabulary.eos_id], **pad})
  for name, content in files.items():
    with writing(directory / name):
      (directory / name).write_bytes(content)


def _write_json(path: epath.Path, content: dict[str, Any]) -> None:
  with writing(path):
    path.write_text(json.dumps(content, indent=1) + '\n')
