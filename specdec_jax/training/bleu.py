"""BLEU of a model's greedy translations."""

import numpy as np

from specdec_jax.data import metrics
from specdec_jax.data.padding import pad_rows
from specdec_jax.decoding import autoregressive_decode
from specdec_jax.model import Model
from specdec_jax.sampling import Sampling


def bleu(model: Model, pairs, max_decode_len: int = 128, batch_size: int = 32) -> float:
  """`metrics.bleu` against the decoded targets of `pairs`, 0 to 100."""
  order = np.argsort([len(source) for source, _ in pairs], kind='stable')
  hypotheses = [''] * len(pairs)
  for start in range(0, len(order), batch_size):
    members = order[start:start + batch_size]
    filled = np.resize(members, batch_size)
    longest = max(len(pairs[i][0]) for i in members)
    tokens = pad_rows([pairs[i][0] for i in filled], -(-longest // 32) * 32, model.config.pad_id)
    result = autoregressive_decode(model, tokens, sampling=Sampling(temperature=0),
                                   max_decode_len=max_decode_len)
    for i, text in zip(members, model.decode(result.tokens)):
      hypotheses[i] = text
  references = model.decode([target for _, target in pairs])
  return metrics.bleu(hypotheses, references)
