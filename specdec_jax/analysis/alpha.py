"""Alpha by corollary 3.6: both models teacher-forced over text that the target generated."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.decoding import autoregressive_decode
from specdec_jax.laws import Law
from specdec_jax.sampling import Sampling


@dataclasses.dataclass(frozen=True, kw_only=True)
class Alpha:
  """An estimate of alpha = E(sum_x min(p(x), q(x))) [cor. 3.6].

  Attributes:
    alpha: mean over all tokens, in [0, 1].
    standard_error: of alpha, with whole texts as the independent units (the tokens
      of one text are not); nan where there is only one.
    num_tokens, num_texts: what it rests on.
  """

  alpha: float
  standard_error: float
  num_tokens: int
  num_texts: int

  def __float__(self):
    return self.alpha

  def __str__(self):
    return f'{self.alpha:.3f} ± {self.standard_error:.3f} ({self.num_tokens} tokens)'


def alpha(target, draft, tokens, num_tokens: int = 10_000, sampling: Sampling = Sampling(),
          seed: int = 0, *, max_decode_len: int = 128, batch_size: int = 8) -> Alpha:
  """Estimates alpha of a draft for a target under one sampling, as the paper does [§4.2].

  The target's own texts for `tokens` are sampled first. At temperature > 0 the inputs
  are gone through again, with new samples, until there are num_tokens; at temperature
  0 that would repeat the same texts, so the estimate may rest on fewer.

  Args:
    target: the `Model` M_p.
    draft: the `Model` M_q, or a `ModelDrafter` with it.
    tokens: int [B, S], encoder tokens.
    num_tokens: generated tokens wanted; the last texts are not cut to fit.
    sampling: how both models' logits are standardised.
    seed: of the generated texts.
    max_decode_len: longest text.
    batch_size: rows of a device call.
  """
  if num_tokens < 1:
    raise ValueError(f'num_tokens is {num_tokens}; it must be at least 1.')
  tokens = target.check_tokens(tokens)
  batch_size = min(batch_size, len(tokens))
  sums, counts, rows = [], [], []
  ids = 0
  while sum(counts) < num_tokens and (ids < len(tokens) or not sampling.greedy):
    members = np.arange(ids, ids + batch_size) % len(tokens)
    real = min(batch_size, len(tokens) - ids) if sampling.greedy else batch_size
    result = autoregressive_decode(target, tokens[members], sampling=sampling, seed=seed,
                                   ids=ids + np.arange(batch_size), max_decode_len=max_decode_len)
    betas = text_betas(target, draft, tokens[members], result.tokens, result.lengths, sampling)
    sums += betas[:real].tolist()
    counts += result.lengths[:real].tolist()
    rows += members[:real].tolist()
    ids += batch_size
  return estimate(sums, counts, rows if len(tokens) > 1 else None)


def text_betas(target, draft, encoder_tokens, tokens, lengths, sampling: Sampling,
               batch_size: int = 8) -> np.ndarray:
  """Sum over each text's tokens of beta = sum_x min(p, q) [def. 3.1, lemma 3.3].

  Args:
    target, draft: as in `alpha`.
    encoder_tokens: int32 [B, S].
    tokens: int32 [B, L], text that the target generated.
    lengths: int32 [B], its tokens, EOS counted.
    sampling: of both models.
    batch_size: rows of a device call.

  Returns:
    float [B].
  """
  draft = getattr(draft, 'draft', draft)
  law = Law(sampling=sampling, num_rows=target.config.vocab_size, num_tokens=target.num_tokens)
  longest = int(np.max(lengths))
  length = min(tokens.shape[1], max(32, 1 << (longest - 1).bit_length()))  # few shapes compile
  sums = []
  for start in range(0, len(tokens), batch_size):
    members = np.minimum(np.arange(start, start + min(batch_size, len(tokens))), len(tokens) - 1)
    sources, text = encoder_tokens[members], np.asarray(tokens)[members, :length]
    betas = _betas(teacher_forced(target, sources, text), teacher_forced(draft, sources, text), law)
    real = np.arange(length) < np.asarray(lengths)[members, None]
    sums += np.where(real, betas, 0.0).sum(1).tolist()
  return np.array(sums[:len(tokens)])


@jax.jit
def teacher_forced(model, encoder_tokens, tokens):
  """Raw logits that a model gives for each token of a text: int32 [B, S], [B, T] -> [B, T, V]."""
  start = model.start_tokens(tokens.shape[0])
  fed = jnp.concatenate([start[:, None], tokens[:, :-1]], axis=1)
  logits, _ = model.step(model.prefill(encoder_tokens, tokens.shape[1]), fed, jnp.zeros_like(start))
  return logits


@functools.partial(jax.jit, static_argnames='law')
def _betas(target_logits, draft_logits, law):
  """float32 [B, T]: beta of each token's laws."""
  p, q = (law.sampling.probabilities(law.mask(x)) for x in (target_logits, draft_logits))
  return jnp.minimum(p, q).sum(-1)


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
    raise ValueError('There is no generated text to measure alpha on.')
  mean = sums.sum() / num_tokens
  residuals = sums - mean * counts
  if groups is not None:
    residuals = np.bincount(np.unique(groups, return_inverse=True)[1], residuals)
  m = len(residuals)
  error = math.sqrt(m / (m - 1) * (residuals ** 2).sum()) / num_tokens if m > 1 else math.nan
  return Alpha(alpha=float(mean), standard_error=error, num_tokens=int(num_tokens),
               num_texts=len(sums))
