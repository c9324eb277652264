"""Alpha by corollary 3.6: target and drafter teacher-forced over text that the target generated."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from specdec_jax import checks, compilation, rule
from specdec_jax.decoding import autoregressive_decode, inputs
from specdec_jax.drafters.chain import distributions_along
from specdec_jax.drafters.interface import Request, for_target
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import SettingError
from specdec_jax.model import Model
from specdec_jax.sampling import Sampling
from specdec_jax.standardizer import Standardizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Alpha:
  """An estimate of alpha = E(sum_x min(p(x), q(x))) [cor. 3.6].

  Attributes:
    alpha: mean over all tokens, in [0, 1].
    standard_error: of alpha, with whole texts as the independent units (the tokens
      of one text are not); nan where there is only one.
    num_tokens, num_texts: what it rests on.
    by_position: mean beta of the texts' first tokens, second tokens and so on, as far
      as there are any; empty where not asked for.
    tokens_by_position: how many tokens each of them rests on.
  """

  alpha: float
  standard_error: float
  num_tokens: int
  num_texts: int
  by_position: tuple[float, ...] = ()
  tokens_by_position: tuple[int, ...] = ()

  def __float__(self):
    return self.alpha

  def __str__(self):
    return f'{self.alpha:.3f} ± {self.standard_error:.3f} ({self.num_tokens} tokens)'


def alpha(target, draft, tokens, num_tokens: int = 10_000, sampling: Sampling = Sampling(),
          seed: int = 0, *, lenience: float = 1.0, max_decode_len: int = 128, batch_size: int = 8,
          logits_processors: Sequence[Callable] = (), by_position: bool = False,
          lengths=None) -> Alpha:
  """Estimates alpha of a draft for a target under one sampling, as the paper does [§4.2].

  The target's own texts for `tokens` are sampled first. At temperature > 0 the inputs
  are gone through again, with new samples, until there are num_tokens; at temperature
  0 that would repeat the same texts, so the estimate may rest on fewer.

  Args:
    target: the `Model` M_p.
    draft: a drafter, or a `Model` M_q.
    tokens, lengths: int [B, S] and, of a decoder-only model, [B]: as in `speculative_decode`.
    num_tokens: generated tokens wanted; the last texts are not cut to fit.
    sampling: how logits are standardised, the target's and the drafter's.
    seed: of the generated texts.
    lenience: l in [0, 1]; alpha is then that of the lenient rule, see `token_betas`. The
      texts are the target's own all the same.
    max_decode_len: longest text.
    batch_size: rows of a device call.
    logits_processors: as in `speculative_decode`.
    by_position: whether to report the means by place in the text too.
  """
  num_tokens = checks.whole('num_tokens', num_tokens, 1)
  batch_size = checks.whole('batch_size', batch_size, 1)
  sampling = inputs.checked_sampling(sampling)
  rule.check(lenience, 'token')
  target = inputs.checked_target(target)
  drafter = inputs.checked_drafter(draft, target)
  tokens = target.check_tokens(tokens)
  lengths = target.check_lengths(tokens, lengths, max_decode_len)
  of_rows = lambda members: None if lengths is None else lengths[members]
  batch_size = min(batch_size, len(tokens))
  sums, counts, rows, betas = [], [], [], np.zeros((0, max_decode_len))
  ids = 0
  while sum(counts) < num_tokens and (ids < len(tokens) or not sampling.greedy):
    members = np.arange(ids, ids + batch_size) % len(tokens)
    real = min(batch_size, len(tokens) - ids) if sampling.greedy else batch_size
    result = autoregressive_decode(target, tokens[members], sampling=sampling, seed=seed,
                                   ids=ids + np.arange(batch_size), max_decode_len=max_decode_len,
                                   logits_processors=logits_processors, lengths=of_rows(members))
    found = token_betas(target, drafter, tokens[members], result.tokens, result.lengths, sampling,
                        lenience=lenience, logits_processors=logits_processors,
                        prompt_lengths=of_rows(members))
    sums += found[:real].sum(1).tolist()
    counts += result.lengths[:real].tolist()
    rows += members[:real].tolist()
    betas = np.concatenate([betas, found[:real]])
    ids += batch_size
  whole = estimate(sums, counts, rows if len(tokens) > 1 else None)
  return dataclasses.replace(whole, **means_by_position(betas, counts)) if by_position else whole


def text_betas(target, draft, tokens, text, lengths, sampling: Sampling,
               batch_size: int = 8, **options) -> np.ndarray:
  """Sum of `token_betas` over each text, float [B] or [K, B]; arguments as there."""
  return token_betas(target, draft, tokens, text, lengths, sampling, batch_size,
                     **options).sum(-1)


def token_betas(target, draft, tokens, text, lengths, sampling: Sampling,
                batch_size: int = 8, *, lenience: float | Sequence[float] = 1.0,
                logits_processors: Sequence[Callable] = (), prompt_lengths=None,
                done: Callable[[int], object] | None = None) -> np.ndarray:
  """beta = sum_x min(p(x), q(x)) of each token of texts [def. 3.1, lemma 3.3].

  With lenience l it is sum_x min(p(x) / l, q(x)) [app. A.5]; at temperature 0 the
  probability under q that the lenient rule keeps x, p(x) >= l max(p) for p before the
  argmax.

  Args:
    target: a `Model`.
    draft: a drafter or a `Model`.
    tokens: int32 [B, S], encoder tokens or prompts.
    text: int32 [B, L], what the target generated for them.
    lengths: int32 [B], its tokens, EOS counted.
    sampling: of both.
    batch_size: rows of a device call.
    lenience: in [0, 1]; 1 is the exact rule. Several are worked out from the same distributions.
    logits_processors: as in `speculative_decode`.
    prompt_lengths: int32 [B], of a decoder-only model's prompts; all S by default.
    done: called with the number of tokens of each device call when it is done.

  Returns:
    float64 [B, L], 0 after each text's end; [K, B, L] of K leniences.
  """
  standardizer = Standardizer.of_target(target, sampling, tuple(logits_processors))
  drafter, lengths = as_drafter(draft), np.asarray(lengths)
  longest = int(np.max(lengths))
  length = min(text.shape[1], max(32, 1 << (longest - 1).bit_length()))  # few shapes compile
  tokens, text = np.asarray(tokens), np.asarray(text)
  leniences = np.atleast_1d(np.asarray(lenience, np.float32))
  found = np.zeros((len(leniences), *text.shape))
  for start in range(0, len(text), batch_size):
    members = np.minimum(np.arange(start, start + min(batch_size, len(text))), len(text) - 1)
    of_prompts = None if prompt_lengths is None else np.asarray(prompt_lengths)[members]
    request = inputs.unplaced_request(target, tokens[members], of_prompts)
    found[:, members, :length] = _betas(
        target, drafter, request, text[members, :length], leniences, standardizer)
    if done is not None:
      done(int(lengths[start:start + batch_size].sum()))
  found = np.where(np.arange(text.shape[1]) < lengths[:, None], found, 0.0)
  return found if np.ndim(lenience) else found[0]


def as_drafter(draft: Any) -> Any:
  """A drafter, a `Model` in a `ModelDrafter`."""
  return ModelDrafter(draft) if isinstance(draft, Model) else draft


def teacher_forced(model: Model, tokens, text, lengths=None) -> jax.Array:
  """Raw logits that a model gives for each token of a text: int32 [B, S], [B, T] -> [B, T, V].

  Args:
    model: of which text stands after the decoder's start token or the prompts.
    tokens, lengths: as in `decoding.speculative_decode`.
    text: int32 [B, T].
  """
  return _teacher_forced(model, inputs.unplaced_request(model, tokens, lengths), text)


@compilation.jit
def _teacher_forced(model, request: Request, text):
  history, prefix_end = history_of(model, request, text)
  return after_prefix(prefix_end, ModelDrafter(model).logits(request.tokens, history), text.shape[1])


@compilation.jit
def _betas(target, drafter, request: Request, text, leniences, standardizer: Standardizer):
  """float32 [K, B, T] for leniences [K]: one run of both models."""
  history, prefix_end = history_of(target, request, text)
  logits = ModelDrafter(target).logits(request.tokens, history)
  p = distributions_along(standardizer, logits, history, prefix_end)
  q = for_target(drafter, target).distributions(request, history, prefix_end, standardizer)
  if standardizer.greedy:
    whole = standardizer.replace(greedy=False, temperature=jnp.float32(1), top_k=0, top_p=False)
    soft = distributions_along(whole, logits, history, prefix_end)
    near = lambda lenience: (soft >= lenience * soft.max(-1, keepdims=True)) & (soft > 0)
    beta = lambda lenience: jnp.where(jnp.where(lenience == 1, p > 0, near(lenience)), q, 0.0).sum(-1)
  else:
    least = np.finfo(np.float32).tiny  # lenience 0 keeps whatever has p > 0
    beta = lambda lenience: jnp.minimum(p / jnp.maximum(lenience, least), q).sum(-1)
  return jax.vmap(after_prefix, (None, 0, None))(prefix_end, lax.map(beta, leniences), text.shape[1])


def history_of(model, request: Request, text):
  """Each row's prefix and its text after it, int32 [B, G + T], and the prefix's end [B]."""
  prefix, prefix_lengths = model.decoder_prefix(
      request.tokens, request.lengths, request.given, request.given_lengths)
  place = jnp.arange(prefix.shape[1] + text.shape[1])
  rows = jnp.concatenate([prefix, text], axis=1)
  source = jnp.where(place < prefix_lengths[:, None], place,
                     place + (prefix.shape[1] - prefix_lengths)[:, None])
  source = jnp.minimum(source, rows.shape[1] - 1)
  return jnp.take_along_axis(rows, source, axis=1), prefix_lengths - 1


def after_prefix(prefix_end, values, length: int):
  """Of values [B, N - 1, ...] of history[:, 1:] those of the text, [B, length, ...]."""
  at = prefix_end[:, None] + jnp.arange(length)
  return jax.vmap(lambda row, places: row[places])(values, at)


def means_by_position(betas, counts) -> dict[str, Any]:
  """The fields of `Alpha` by position, of betas [N, L] of texts with so many tokens [N]."""
  tokens = (np.arange(betas.shape[1]) < np.asarray(counts)[:, None]).sum(0)
  tokens = tokens[tokens > 0]
  means = betas.sum(0)[:len(tokens)] / tokens
  return {'by_position': tuple(means.tolist()), 'tokens_by_position': tuple(tokens.tolist())}


def estimate(sums, counts, groups=None) -> Alpha:
  """Alpha and its standard error from each text's sum of betas and number of tokens.

  Args:
    sums: float [N].
    counts: int [N].
    groups: int [N], texts that share an input and so are not independent; by
      default every text stands alone.
  """
  sums, counts = np.asarray(sums, np.float64), np.asarray(counts, np.float64)
  num_tokens = counts.sum()
  if not num_tokens:
    raise SettingError('There is no generated text to measure alpha on.')
  mean = sums.sum() / num_tokens
  residuals = sums - mean * counts
  if groups is not None:
    residuals = np.bincount(np.unique(groups, return_inverse=True)[1], residuals)
  m = len(residuals)
  error = math.sqrt(m / (m - 1) * (residuals ** 2).sum()) / num_tokens if m > 1 else math.nan
  return Alpha(alpha=float(mean), standard_error=error, num_tokens=int(num_tokens),
               num_texts=len(sums))
