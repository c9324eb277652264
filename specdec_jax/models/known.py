"""Models whose sizes are known by name: what gin/models, the importer and the planner share."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from specdec_jax.errors import SettingError
from specdec_jax.models.config import GPT2Config, T5Config

Config = T5Config | GPT2Config


def _t5(emb_dim: int, num_heads: int, head_dim: int, mlp_dim: int, encoder: int, decoder: int,
        **rest: Any) -> dict[str, Any]:
  return dict(emb_dim=emb_dim, num_heads=num_heads, head_dim=head_dim, mlp_dim=mlp_dim, num_encoder_layers=encoder,
              num_decoder_layers=decoder, **rest)


def _gpt2(emb_dim: int, num_heads: int, num_layers: int, **rest: Any) -> dict[str, Any]:
  return dict(emb_dim=emb_dim, num_heads=num_heads, num_layers=num_layers, **rest)


# T5 v1.1, LM-adapted and Flan checkpoints too; mT5 and UMT5 have the same sizes.
_V1_1 = {
    'small': _t5(512, 6, 64, 1024, 8, 8),
    'base': _t5(768, 12, 64, 2048, 12, 12),
    'large': _t5(1024, 16, 64, 2816, 24, 24),
    'xl': _t5(2048, 32, 64, 5120, 24, 24),
    'xxl': _t5(4096, 64, 64, 10240, 24, 24),
}
_V1_0 = {
    'small': _t5(512, 8, 64, 2048, 6, 6),
    'base': _t5(768, 12, 64, 3072, 12, 12),
    'large': _t5(1024, 16, 64, 4096, 24, 24),
    '3b': _t5(1024, 32, 128, 16384, 24, 24),
    '11b': _t5(1024, 128, 128, 65536, 24, 24),
}
_GPT2 = {
    'gpt2': _gpt2(768, 12, 12), 'gpt2_medium': _gpt2(1024, 16, 24), 'gpt2_large': _gpt2(1280, 20, 36),
    'gpt2_xl': _gpt2(1600, 25, 48),
}
_GATED = dict(mlp_activations=('gelu', 'linear'), logits_via_embedding=False)  # and logits of their own
_PER_LAYER = dict(relative_bias_per_layer=True)
_TIED = dict(mlp_activations=('relu',), logits_via_embedding=True)
# Id 0 of its vocabulary is the unknown piece, a real token.
_MADLAD = dict(vocab_size=256000, pad_id=1, eos_ids=(2,), **_GATED)
_BYT5 = {
    'small': _t5(1472, 6, 64, 3584, 12, 4),
    'base': _t5(1536, 12, 64, 3968, 18, 6),
    'large': _t5(1536, 16, 64, 3840, 36, 12),
    'xl': _t5(2560, 32, 64, 6720, 36, 12),
    'xxl': _t5(4672, 64, 64, 12352, 36, 12),
}
_CHRONOS = {
    'tiny': _t5(256, 4, 64, 1024, 4, 4), 'mini': _t5(384, 8, 64, 1536, 4, 4), 'small': _V1_0['small'],
    'base': _V1_0['base'], 'large': _V1_0['large'],
}


def _some(sizes: Mapping[str, dict[str, Any]], *names: str) -> dict[str, dict[str, Any]]:
  return {name: sizes[name] for name in names}


def _family(prefix: str, sizes: Mapping[str, dict[str, Any]], **common) -> dict[str, dict[str, Any]]:
  return {prefix + name: {**fields, **common} for name, fields in sizes.items()}


# What a name says of a model: fields of its configuration.
_T5_MODELS = {
    **_family('t5_1_1_', _V1_1, vocab_size=32128, **_GATED),
    **_family('t5_1_0_', _V1_0, vocab_size=32128, **_TIED),
    **_family('mt5_', _V1_1, vocab_size=250112, **_GATED),
    **_family('umt5_', _V1_1, vocab_size=256384, **_GATED, **_PER_LAYER),
    'madlad400_3b': _t5(1024, 16, 128, 8192, 32, 32, **_MADLAD),
    'madlad400_7b': _t5(2048, 16, 128, 8192, 48, 48, **_MADLAD),
    'madlad400_10b': _t5(2048, 32, 128, 16384, 32, 32, **_MADLAD),
    'ul2_20b': _t5(4096, 16, 256, 16384, 32, 32, vocab_size=32128, mlp_activations=('silu', 'linear'),
                   logits_via_embedding=True),
    'aya_101': dict(**_V1_1['xxl'], vocab_size=250112, **_GATED),
    **_family('pile_t5_', _some(_V1_1, 'base', 'large', 'xl', 'xxl'), vocab_size=32128, eos_ids=(2,),
              **_GATED, **_PER_LAYER),
    **_family('byt5_', _BYT5, vocab_size=384, **_GATED),
    **_family('codet5_', _some(_V1_0, 'small', 'base', 'large'), vocab_size=32100, eos_ids=(2,),
              **_TIED),
    **_family('codet5p_', {'220m': _V1_0['base'], '770m': _V1_0['large']}, vocab_size=32100, eos_ids=(2,), **_TIED),
    **_family('chronos_t5_', _CHRONOS, vocab_size=4096, **_TIED),
    **_family('long_t5_local_', _some(_V1_1, 'base', 'large'), vocab_size=32128, encoder_attention='local',
              **_GATED),
    **_family('long_t5_tglobal_', _some(_V1_1, 'base', 'large', 'xl'), vocab_size=32128,
              encoder_attention='transient_global', **_GATED),
    # The embedded pair: a target whose steps are bound by reading its weights, a draft of few layers, since each
    # layer of each step has a fixed cost.
    'ende_target': _t5(512, 8, 64, 1024, 3, 6, vocab_size=5120),
    'ende_draft': _t5(128, 4, 32, 512, 4, 2, vocab_size=5120),
}
_GPT2_MODELS = {
    **_family('', _GPT2, vocab_size=50257, max_positions=1024, activation='gelu'),
    # The paper's GPT-like M_p and M_q [section 4.2], over an 8k WordPiece vocabulary. They have tables of their own
    # for the logits, which makes them 97M and 6M parameters; with GPT-2's tied ones it is 91.5M and 3.7M.
    'gpt2_97m': _gpt2(768, 12, 12, mlp_dim=3072, vocab_size=8192, max_positions=256, activation='gelu'),
    'gpt2_6m': _gpt2(256, 4, 2, mlp_dim=1024, vocab_size=8192, max_positions=256, activation='gelu'),
    # The embedded decoder-only pair.
    'lm_target': _gpt2(256, 4, 4, mlp_dim=1024, vocab_size=4096, max_positions=128),
    'lm_draft': _gpt2(128, 2, 1, mlp_dim=512, vocab_size=4096, max_positions=128),
}
_MODELS: dict[type, dict[str, dict[str, Any]]] = {T5Config: _T5_MODELS, GPT2Config: _GPT2_MODELS}


def known_names(kind: type | None = None) -> list[str]:
  """All names, or those of one kind of configuration."""
  return sorted(name for k, models in _MODELS.items() if kind in (None, k) for name in models)


def known_fields(name: Any, kind: type | None = None, setting: str = 'the model') -> dict[str, Any]:
  """What a name says of a configuration: sizes and conventions, {field: value}; the rest is as elsewhere.

  Args:
    name: such as 't5_1_1_xxl'.
    kind: T5Config or GPT2Config; any by default.
    setting: what a message calls the name.
  """
  for k, models in _MODELS.items():
    if kind in (None, k) and isinstance(name, str) and name in models:
      return dict(models[name])
  raise SettingError(f'{setting} is {name!r}, which is not known; known are {", ".join(known_names(kind))}.')


def known_config(name: str, **changes: Any) -> Config:
  """The configuration of a known model, some fields changed."""
  fields = known_fields(name)
  kind = next(kind for kind, models in _MODELS.items() if name in models)
  return kind(**{**fields, **changes})


def names_like(config: Config) -> list[str]:
  """The known models whose sizes and conventions a configuration has; its numbers and vocabulary are passed over."""
  passed_over = ['dtype', 'int8_weights', 'dropout_rate', 'num_pieces']
  if not config.logits_via_embedding:
    passed_over.append('scale_tied_logits')
  own = {**dataclasses.asdict(config), **dict.fromkeys(passed_over)}
  return [name for name in known_names(type(config))
          if {**dataclasses.asdict(known_config(name)), **dict.fromkeys(passed_over)} == own]


def _configurable(kind: type) -> Callable[..., Any]:
  """The class as a gin file configures it: with a `name`, whose fields hold where none are set."""
  parameters = list(inspect.signature(kind).parameters.values())
  required = [p.name for p in parameters if p.default is p.empty]

  def make(name: str | None = None, **fields: Any) -> Any:
    known = {} if name is None else known_fields(name, kind, f'{kind.__name__}.name')
    given = {**known, **fields}
    missing = [f for f in required if f not in given]
    if missing:
      raise SettingError(f'{kind.__name__}.{missing[0]} is not set; set it, or include a file of gin/models, which '
                         f'sets {kind.__name__}.name.')
    return kind(**given)

  optional = [p.replace(default=None) if p.default is p.empty else p for p in parameters]
  by_name = inspect.Parameter('name', inspect.Parameter.KEYWORD_ONLY, default=None, annotation=str | None)
  make.__signature__ = inspect.Signature([by_name, *optional], return_annotation=kind)  # type: ignore[attr-defined]
  make.__name__ = make.__qualname__ = kind.__name__
  make.__doc__ = f"""{kind.__doc__}
  `name` is that of a known model, such as {known_names(kind)[0]!r}: its fields hold where none are set.
  """
  return make


# gin's T5Config and GPT2Config.
CONFIGURABLES = {kind.__name__: _configurable(kind) for kind in _MODELS}
