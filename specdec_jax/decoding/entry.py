"""The functions that decode: with drafts, the one-token baseline, rows filled again, iteration by iteration."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Int

from specdec_jax import checks, rule
from specdec_jax.decoding import inputs
from specdec_jax.decoding.loop import decode_loop
from specdec_jax.decoding.running import Running
from specdec_jax.decoding.settings import Settings
from specdec_jax.decoding.stepwise import steps
from specdec_jax.drafters.interface import Drafter
from specdec_jax.logits_processors import checked as checked_processors
from specdec_jax.model import Model
from specdec_jax.results import Result
from specdec_jax.sampling import Sampling
from specdec_jax.standardizer import Standardizer
from specdec_jax.tree import Tree


def speculative_decode(target: Model, drafter: Drafter | Model, tokens: Int[ArrayLike, 'B S'], *,
                       gamma: int | None = None, tree: Tree | int | None = None, sampling: Sampling = Sampling(),
                       max_decode_len: int = 128, seed: int = 0, ids: Int[ArrayLike, ' B'] | None = None,
                       lenience: float = 1.0, verification: str = 'token',
                       logits_processors: Sequence[Callable] = (), lengths: Int[ArrayLike, ' B'] | None = None,
                       target_prefix: Int[ArrayLike, 'B P'] | None = None,
                       target_prefix_lengths: Int[ArrayLike, ' B'] | None = None, num_samples: int = 1,
                       buckets: Sequence[int] | None = None, trace: bool = False) -> Result:
  """Decodes with drafts; for lenience 1 the text follows the target's own distribution exactly.

  A row's result depends on (seed, its id) alone, not on its place in a batch or on
  the other rows. At temperature 0 it is the target's greedy text.

  Args:
    target: the `Model` whose distribution is sampled.
    drafter: such as `ModelDrafter(draft)`; a `Model` drafts too.
    tokens: int [B, S], encoder tokens, padded on the right; of a decoder-only model the prompts.
    gamma: draft tokens an iteration, at least 1; 7 by default.
    tree: in place of gamma, a `Tree` of candidates; a number is a chain of so many.
    sampling: temperature, top-k and top-p, for both models.
    max_decode_len: most tokens a row may get, EOS counted.
    seed, ids: random keys come from (seed, ids[b]); ids int [B], by default 0 to B - 1.
    lenience: 1 is exact; less accepts more [app. A.5].
    verification: the acceptance rule: 'token', or for chains 'block'; see `verify`.
    logits_processors: see `logits_processors`; applied to both models.
    lengths: int [B], tokens of each prompt of a decoder-only model (any id may be real); all S by default.
    target_prefix: int [B, P], tokens that an encoder-decoder's text begins with, after its start token; no EOS among
      them. The result holds what follows them.
    target_prefix_lengths: int [B], how many of them each row has, 0 to P; by default up to the last that is no padding.
    num_samples: K texts of each input, whose encoder runs once: rows b0 s0, b0 s1, ... Random keys come from (seed, id,
      sample), and the first sample is what one sample gives.
    buckets: lengths that the inputs are padded to, each a program of its own; by default few, () for none.
    trace: keep what each iteration drafted and accepted in `Result.trace`.

  Returns:
    `Result` of B * K rows, on the host.

  Raises:
    SettingError: an argument of a wrong type or value, or that does not fit the models.
  """
  target = inputs.checked_target(target)
  drafter, shape = _draft(target, drafter, gamma, tree, lenience, verification)
  settings = _settings(shape, max_decode_len, num_samples, verification, lenience, trace)
  return _run(settings, target, drafter, tokens, sampling, seed=seed, ids=ids, lengths=lengths,
              prefix=target_prefix, prefix_lengths=target_prefix_lengths, processors=logits_processors, buckets=buckets,
              lenience=lenience)


def autoregressive_decode(target: Model, tokens: Int[ArrayLike, 'B S'], *, sampling: Sampling = Sampling(),
                          max_decode_len: int = 128, seed: int = 0, ids: Int[ArrayLike, ' B'] | None = None,
                          logits_processors: Sequence[Callable] = (),
                          lengths: Int[ArrayLike, ' B'] | None = None,
                          target_prefix: Int[ArrayLike, 'B P'] | None = None,
                          target_prefix_lengths: Int[ArrayLike, ' B'] | None = None, num_samples: int = 1,
                          buckets: Sequence[int] | None = None) -> Result:
  """The one-token baseline: the same loop without a draft. Arguments as `speculative_decode`."""
  settings = _settings(None, max_decode_len, num_samples)
  return _run(settings, inputs.checked_target(target), None, tokens, sampling, seed=seed, ids=ids, lengths=lengths,
              prefix=target_prefix, prefix_lengths=target_prefix_lengths, processors=logits_processors, buckets=buckets)


def running_decode(target: Model, drafter: Drafter | Model | None, *, rows: int, length: int,
                   gamma: int | None = None, tree: Tree | int | None = None, sampling: Sampling = Sampling(),
                   max_decode_len: int = 128, seed: int = 0, lenience: float = 1.0, verification: str = 'token',
                   logits_processors: Sequence[Callable] = (), num_samples: int = 1, prefix_length: int = 0,
                   hand_back: int | None = None) -> Running:
  """A loop that decodes inputs as they come, in rows that are filled again as they end; see `Running`.

  Args:
    drafter: None is plain decoding.
    rows, length, prefix_length, hand_back: of `Running`.
    target, gamma, tree, sampling, max_decode_len, seed, lenience, verification, logits_processors, num_samples: as in
      `speculative_decode`.

  Raises:
    SettingError: as `speculative_decode`.
  """
  target, shape = inputs.checked_target(target), None
  if drafter is not None:
    drafter, shape = _draft(target, drafter, gamma, tree, lenience, verification)
  settings = _settings(shape, max_decode_len, num_samples, verification, lenience)
  standardizer = Standardizer.of_target(target, inputs.checked_sampling(sampling),
                                        checked_processors(logits_processors, target))
  return Running(target, drafter, settings, standardizer, rows=rows, length=length,
                 prefix_length=prefix_length, seed=inputs.checked_seed(seed), lenience=lenience, hand_back=hand_back)


def decode_steps(target: Model, drafter: Drafter | Model | None, tokens: Int[ArrayLike, 'B S'], *,
                 gamma: int | None = None, tree: Tree | int | None = None, sampling: Sampling = Sampling(),
                 max_decode_len: int = 128, seed: int = 0, ids: Int[ArrayLike, ' B'] | None = None,
                 lenience: float = 1.0, verification: str = 'token', logits_processors: Sequence[Callable] = (),
                 lengths: Int[ArrayLike, ' B'] | None = None, target_prefix: Int[ArrayLike, 'B P'] | None = None,
                 buckets: Sequence[int] | None = None) -> Iterator[Result]:
  """`speculative_decode` (or, without a drafter, `autoregressive_decode`) that comes back after every iteration.

  Arguments as there, checked before this returns.

  Returns:
    An iterator of the `Result` so far, with its trace; the last is what a decode with trace=True returns.
  """
  target, shape = inputs.checked_target(target), None
  if drafter is not None:
    drafter, shape = _draft(target, drafter, gamma, tree, lenience, verification)
  settings = _settings(shape, max_decode_len, 1, verification, lenience, trace=True)
  return steps(loop_arguments(target, drafter, tokens, settings, sampling, seed=seed, ids=ids, lengths=lengths,
                              processors=logits_processors, prefix=target_prefix, buckets=buckets,
                              lenience=lenience), settings)


def loop_arguments(target: Model, drafter: Drafter | None, tokens: Any, settings: Settings, sampling: Sampling,
                   *, seed: int = 0, ids: Any = None, lengths: Any = None, processors: Sequence[Callable] = (),
                   prefix: Any = None, prefix_lengths: Any = None, buckets: Sequence[int] | None = None,
                   lenience: float = 1.0) -> tuple[Any, ...]:
  """The arguments of `loop.decode_loop` but its settings, checked; as in `speculative_decode`."""
  sampling = inputs.checked_sampling(sampling)
  processors = checked_processors(processors, target)
  request, ids = inputs.request(target, drafter, tokens, lengths, ids, settings.max_decode_len, buckets, prefix,
                                prefix_lengths)
  standardizer = Standardizer.of_target(target, sampling, processors)
  return target, drafter, request, inputs.checked_seed(seed), ids, standardizer, np.float32(lenience)


def _settings(tree: Tree | None, max_decode_len: Any, num_samples: Any, verification: str = 'token',
              lenience: float = 1.0, trace: Any = False) -> Settings:
  return Settings(tree=tree, max_decode_len=checks.whole('max_decode_len', max_decode_len, 1, checks.MOST_TOKENS),
                  verification=verification, lenient=lenience < 1, trace=checks.flag('trace', trace),
                  num_samples=checks.whole('num_samples', num_samples, 1))


def _run(settings: Settings, target: Model, drafter: Drafter | None, tokens: Any, sampling: Sampling,
         **options) -> Result:
  arguments = loop_arguments(target, drafter, tokens, settings, sampling, **options)
  return jax.device_get(decode_loop(*arguments, settings)).with_short_trace()


def _draft(target: Model, drafter: Any, gamma: Any, tree: Any, lenience: Any,
           verification: Any) -> tuple[Drafter, Tree]:
  """What drafts, and the shape of its drafts, checked."""
  shape = inputs.checked_tree(gamma, tree)
  rule.check(lenience, verification, shape.is_chain)
  return inputs.checked_drafter(drafter, target), shape
