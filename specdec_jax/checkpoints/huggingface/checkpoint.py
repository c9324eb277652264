"""Opens a Hugging Face checkpoint of any family that is known here."""

from collections.abc import Sequence
from typing import Any

from etils import epath

from specdec_jax.checkpoints.huggingface import gpt2, t5
from specdec_jax.checkpoints.huggingface.fields import Fields
from specdec_jax.checkpoints.readers import Reader
from specdec_jax.checks import shown
from specdec_jax.files import json_files

# Families that people take for one of these, and what keeps them out.
_OTHERS = {
    'switch_transformers': "Switch's feed-forward layers are mixtures of experts",
    'nllb-moe': 'its feed-forward layers are mixtures of experts',
    't5gemma': "T5Gemma's encoder and decoder are Gemma's", 't5gemma2': "T5Gemma 2's encoder and decoder are Gemma's",
    'codet5p': "CodeT5+ of 2B and more has CodeGen's encoder and decoder (220m and 770m are of model_type t5)",
    'codet5p_bimodal': 'it has heads beside the decoder', 'codet5p_embedding': 'it has no decoder',
    'edit5': 'EdiT5 edits its input and has no decoder over a whole text',
    **dict.fromkeys(('bart', 'mbart', 'marian', 'pegasus', 'm2m_100', 'led', 'pegasus_x', 'bigbird_pegasus',
                     'blenderbot', 'fsmt', 'prophetnet'), 'it is no T5: positions, norms and biases are others')}
_KNOWN = ('t5 (T5, Flan-T5, UL2, MADLAD-400, Aya, ByT5, CodeT5, CodeT5+ 220m and 770m, Chronos-T5, ...), mt5, umt5 '
          '(Pile-T5 too), longt5 and gpt2')
_FAMILIES = {**dict.fromkeys(t5.MODEL_TYPES, (t5.T5Reader, t5.ALIASES)), 'gpt2': (gpt2.GPT2Reader, gpt2.ALIASES)}


def open_huggingface(directory: epath.Path, ignore: Sequence[str] = ()) -> Reader:
  """Opens the checkpoint in a directory.

  Args:
    directory: with config.json and weights.
    ignore: settings of generation_config.json to pass over; see `generation.notes`.

  Raises:
    CheckpointError: a file that is missing or damaged, another family, or a variant that is not known here.
  """
  path = directory / 'config.json'
  content = json_files.read_json(path, 'configuration')
  kind = content.get('model_type')
  family: Any = _FAMILIES.get(kind, (None, None)) if isinstance(kind, str) else (None, None)
  reader, aliases = family
  if reader is None:
    why = f': {_OTHERS[kind]}. Known' if isinstance(kind, str) and kind in _OTHERS else '; known'
    raise Fields(path, content).error(f'model_type is {shown(kind)}{why} are {_KNOWN}')
  return reader(directory, Fields(path, content, aliases), ignore)
