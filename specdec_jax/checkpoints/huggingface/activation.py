"""transformers' names of activations, and the names of the same functions here."""

from specdec_jax.checkpoints.huggingface.fields import Fields
from specdec_jax.checks import shown

_NAMES = {
    'relu': 'relu', 'relu2': 'relu2', 'relu6': 'relu6', 'leaky_relu': 'leaky_relu',
    'gelu': 'gelu_exact', 'gelu_python': 'gelu_exact', 'quick_gelu': 'quick_gelu',
    'gelu_new': 'gelu', 'gelu_fast': 'gelu', 'gelu_accurate': 'gelu', 'gelu_pytorch_tanh': 'gelu',
    'gelu_python_tanh': 'gelu',
    'silu': 'silu', 'swish': 'silu', 'mish': 'mish', 'hardswish': 'hard_swish',
    'sigmoid': 'sigmoid', 'tanh': 'tanh', 'linear': 'linear'}


def of_t5(fields: Fields, default: str) -> tuple[str, ...]:
  """T5's activations, one for each input projection.

  feed_forward_proj says both the function and the gate; dense_act_fn and is_gated_act win over it where they are
  given, as in transformers.

  Args:
    fields: of config.json.
    default: feed_forward_proj where the file does not say it.
  """
  projection = fields.text('feed_forward_proj', default)
  *gate, name = projection.split('-')
  if gate not in ([], ['gated']) or not name:
    raise fields.error(f"feed_forward_proj is {shown(projection)}; it must be 'ACTIVATION' or 'gated-ACTIVATION'")
  if projection == 'gated-gelu':
    name = 'gelu_new'
  where = 'dense_act_fn' if 'dense_act_fn' in fields else 'feed_forward_proj'
  own = _own(fields, fields.text('dense_act_fn', name), where)
  return (own, 'linear') if fields.flag('is_gated_act', bool(gate)) else (own,)


def of_gpt2(fields: Fields) -> str:
  """GPT-2's activation."""
  return _own(fields, fields.text('activation_function', 'gelu_new'), 'activation_function')


def theirs(name: str) -> str:
  """The usual one of transformers' names for an activation here."""
  return next(t for t, own in _NAMES.items() if own == {'swish': 'silu'}.get(name, name))


def _own(fields: Fields, name: str, where: str) -> str:
  if name not in _NAMES:
    raise fields.error(f"{where} uses {shown(name)}; known are {', '.join(_NAMES)}")
  return _NAMES[name]
