"""Checks of the settings that several runs have, by their names."""

from collections.abc import Mapping
from typing import Any

from specdec_jax import arguments, checks, rule
from specdec_jax.data import tokenizer
from specdec_jax.drafters.interface import Drafter
from specdec_jax.errors import SettingError
from specdec_jax.jobs import inputs
from specdec_jax.jobs.choosing import AUTO
from specdec_jax.model import Model
from specdec_jax.sampling import Sampling
from specdec_jax.tree import Tree

MOST_SEED = 2 ** 32 - 1  # seeds are 32 bits of a random key

VOCABULARY = tokenizer.checked
MODEL = arguments.instance(Model, 'a model, such as @target/load_model()')
SAMPLING = arguments.instance(Sampling, '@Sampling()')
GAMMA = arguments.between(1, checks.MOST_DRAFTED)
MAX_DECODE_LEN = arguments.between(1, checks.MOST_TOKENS)
LENIENCE = arguments.probability
VERIFICATION = arguments.text_of(rule.VERIFICATIONS)
SEED = arguments.between(0, MOST_SEED)


def drafter(name: str, value: Any) -> Drafter | Model:
  """A drafter, or a model, which drafts too; not the class of one."""
  if isinstance(value, type) or not isinstance(value, (Drafter, Model)):
    raise SettingError(f'{name} is {checks.shown(value)}; it must be a drafter, such as @ModelDrafter().')
  return value


def drafters(name: str, value: Any) -> dict[str, Drafter | Model]:
  """Several by name, at least one."""
  checks.instance(name, value, Mapping, "{name: drafter}, such as {'small': @ModelDrafter()}")
  if not value:
    raise SettingError(f'{name} is empty; it needs at least one drafter.')
  return {checks.text(f'{name} (a name in it)', n): drafter(f'{name}[{n!r}]', d) for n, d in value.items()}


def tree(name: str, value: Any, hint: str = '') -> Tree | int:
  """A draft tree, or the length of a chain."""
  if isinstance(value, Tree):
    return value
  return checks.whole(name, value, 1, checks.MOST_DRAFTED, f', or a tree such as @Tree() or @best_tree(){hint}')


def gamma_or_auto(name: str, value: Any) -> int | str:
  """A draft length, or 'auto'."""
  return value if _is_auto(value) else checks.whole(name, value, 1, checks.MOST_DRAFTED, ", or 'auto'")


def tree_or_auto(name: str, value: Any) -> Tree | int | str:
  """A draft tree, or 'auto'."""
  return value if _is_auto(value) else tree(name, value, hint=", or 'auto'")


def _is_auto(value: Any) -> bool:
  return isinstance(value, str) and value == AUTO


# What runs that decode inputs have in common.
OF_INPUTS = {
    'target': MODEL, 'examples': arguments.iterable, 'max_decode_len': MAX_DECODE_LEN, **inputs.CHECKS}
# What runs with one method of decoding have beside.
OF_METHOD = {
    'drafter': arguments.optional(drafter), 'gamma': arguments.optional(GAMMA),
    'tree': arguments.optional(tree), 'lenience': arguments.optional(LENIENCE),
    'verification': arguments.optional(VERIFICATION), 'sampling': SAMPLING, 'seed': SEED,
    'logits_processors': arguments.tuple_of(arguments.function, empty=True)}
# What a run that keeps several texts of an input, or texts that go on from given ones, has beside.
OF_SAMPLES = {
    'num_samples': arguments.at_least(1), 'best_first': arguments.flag,
    'max_target_prefix_len': arguments.optional(arguments.between(0, checks.MOST_TOKENS))}
# What of them a job may choose itself.
AUTOMATIC = {'gamma': arguments.optional(gamma_or_auto), 'tree': arguments.optional(tree_or_auto)}
