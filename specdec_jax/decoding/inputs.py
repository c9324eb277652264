"""What comes into a decode: checked, padded to one of few lengths, and put where the models lie."""

from typing import Any

import numpy as np

from specdec_jax import checks
from specdec_jax.data.padding import padded_length
from specdec_jax.drafters.interface import Drafter, Request
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import SettingError
from specdec_jax.model import Model
from specdec_jax.parallel.mesh import place_rows
from specdec_jax.sampling import Sampling
from specdec_jax.tree import Tree

MOST_KEYS = 2 ** 32 - 1  # seeds and ids are 32 bits of a random key


def request(target: Model, drafter: Any, tokens: Any, lengths: Any, ids: Any, max_decode_len: int,
            buckets: Any = None, prefix: Any = None, prefix_lengths: Any = None) -> tuple[Request, np.ndarray]:
  """The rows of a decode and their ids, uint32 [B], on the devices of the models.

  Args:
    target, drafter: what will decode; their devices count.
    tokens, lengths, ids, buckets: as in `speculative_decode`.
    max_decode_len: checked.
    prefix, prefix_lengths: `target_prefix` and its lengths, as there.

  Raises:
    SettingError: anything that does not fit the target.
  """
  tokens = target.check_tokens(tokens)
  lengths = target.check_lengths(tokens, lengths, max_decode_len)
  ids = checked_ids(ids, len(tokens))
  padding = 0 if target.config.decoder_only else target.config.pad_id
  made = unplaced_request(target, pad(tokens, _padded(tokens.shape[1], buckets), padding), lengths)
  given, given_lengths = given_tokens(target, len(tokens), prefix, prefix_lengths, buckets)
  tokens, lengths, given, given_lengths, ids = place_rows(
      (target, drafter), made.tokens, made.lengths, given, given_lengths, ids)
  return Request(tokens=tokens, lengths=lengths, given=given, given_lengths=given_lengths), ids


def given_tokens(target: Model, batch: int, prefix: Any, lengths: Any,
                 buckets: Any = None) -> tuple[np.ndarray | None, np.ndarray | None]:
  """`Request.given` and its lengths, of a target prefix: the start token stands before it.

  Raises:
    SettingError: a decoder-only model, wrong types, shapes or ids, or an EOS among them.
  """
  if prefix is None:
    if lengths is not None:
      raise SettingError('target_prefix_lengths are given without a target_prefix; leave them out.')
    return None, None
  if target.config.decoder_only:
    raise SettingError('target_prefix is of models with an encoder; of a decoder-only model the tokens that are given '
                       'are the prompts.')
  prefix = target.check_tokens(prefix, 'target_prefix')
  if len(prefix) != batch:
    raise SettingError(f'target_prefix has {len(prefix)} rows, tokens {batch}; they must agree.')
  longest = prefix.shape[1]
  if lengths is None:
    lengths = np.where(prefix != target.config.pad_id, np.arange(1, longest + 1), 0).max(1)
  lengths = checks.row_lengths('target_prefix_lengths', lengths, (batch,), longest, 'target_prefix')
  inside = np.arange(longest) < lengths[:, None]
  ends = np.argwhere(np.isin(prefix, target.eos_ids) & inside)
  if len(ends):
    row, column = ends[0]
    raise SettingError(f'target_prefix[{row}, {column}] is {prefix[row, column]}, which ends a text; a prefix goes on, '
                       'so leave it out.')
  start = np.full((batch, 1), target.config.decoder_start_id, np.int32)
  given = np.concatenate([start, np.where(inside, prefix, 0)], axis=1)
  return pad(given, _padded(longest, buckets) + 1, 0), lengths + 1


def unplaced_request(target: Model, tokens: np.ndarray, lengths: np.ndarray | None) -> Request:
  """A request on the host of what was checked before.

  Args:
    target: whose pad id counts.
    tokens: int32 [B, S].
    lengths: int32 [B], of prompts; None counts up to each row's last token that is no padding, of a decoder-only
      model all.
  """
  tokens = np.asarray(tokens, np.int32)
  if lengths is None:
    real = np.ones_like(tokens, bool) if target.config.decoder_only else tokens != target.config.pad_id
    lengths = np.where(real, np.arange(1, tokens.shape[1] + 1), 0).max(1)
  return Request(tokens=tokens, lengths=np.asarray(lengths, np.int32))


def _padded(length: int, buckets: Any) -> int:
  return padded_length(length, None if buckets is None else checks.wholes('buckets', buckets, 1, empty=True))


def pad(tokens: np.ndarray, length: int, value: int) -> np.ndarray:
  """[B, S] -> [B, length], the value on the right."""
  return np.pad(tokens, ((0, 0), (0, length - tokens.shape[1])), constant_values=value)


def checked_ids(ids: Any, batch: int) -> np.ndarray:
  """uint32 [B]; 0 to B - 1 where there are none."""
  if ids is None:
    return np.arange(batch, dtype=np.uint32)
  ids = checks.integers('ids', ids, (batch,), f'of shape [{batch}], one a row of tokens')
  if ids.min() < 0 or ids.max() > MOST_KEYS:
    raise SettingError(f'ids go from {ids.min()} to {ids.max()}; they must be 0 to {MOST_KEYS}.')
  return ids.astype(np.uint32)


def checked_seed(seed: Any) -> np.uint32:
  """uint32 scalar."""
  return np.uint32(checks.whole('seed', seed, 0, MOST_KEYS))


def checked_sampling(sampling: Any) -> Sampling:
  """SettingError for what is no `Sampling`."""
  return checks.instance('sampling', sampling, Sampling, 'a Sampling, such as Sampling(temperature=0.0)')


def checked_drafter(drafter: Any, target: Model) -> Drafter:
  """The drafter, a `Model` in a `ModelDrafter`; SettingError where it cannot draft for this target."""
  if isinstance(drafter, Model):
    drafter = ModelDrafter(drafter)
  missing = isinstance(drafter, type) or not isinstance(drafter, Drafter)
  if missing:
    raise SettingError(f'drafter is {checks.shown(drafter)}; it must be a drafter, such as ModelDrafter(draft), or a '
                       'draft Model.')
  drafter.check(target)
  return drafter


def checked_target(target: Any) -> Model:
  """SettingError for what is no `Model`."""
  return checks.instance('target', target, Model, "a Model, such as load_model('embedded:ende/target')")


def checked_tree(gamma: Any, tree: Any) -> Tree:
  """A chain of gamma nodes (7 by default), or the tree, which may be a number too."""
  if tree is None:
    return Tree.chain(checks.whole('gamma', 7 if gamma is None else gamma, 1, checks.MOST_DRAFTED,
                                   hint=' (autoregressive_decode decodes without a draft)'))
  if gamma is not None:
    raise SettingError(f'gamma is {checks.shown(gamma)} and there is a tree too; give one of them.')
  return tree if isinstance(tree, Tree) else Tree.chain(
      checks.whole('tree', tree, 1, checks.MOST_DRAFTED, ', or a Tree'))
