"""Random T5s of a few thousand weights, widened so that every token depends on all before it."""

import io

import jax
import jax.numpy as jnp
import numpy as np
import sentencepiece

from specdec_jax.data.vocabulary import Vocabulary
from specdec_jax.model import Model
from specdec_jax.models.config import T5Config
from specdec_jax.models.t5 import T5

PIECES, ROWS = 20, 24  # the last 4 rows are padding


def config(**changes) -> T5Config:
  return T5Config(**{
      'vocab_size': ROWS, 'num_pieces': PIECES, 'emb_dim': 16, 'num_heads': 2, 'head_dim': 8,
      'mlp_dim': 24, 'num_encoder_layers': 1, 'num_decoder_layers': 1, 'num_buckets': 8,
      'max_distance': 16, **changes})


def random_t5(seed: int, **changes) -> Model:
  """Normal weights of twice T5's initial scale, relative biases of deviation 2.

  Untied logits lose the embedding, so that a token is seldom followed by itself.
  """
  cfg = config(**changes)
  start = jnp.zeros((1, 2), jnp.int32)
  shapes = jax.eval_shape(T5(cfg).init, jax.random.key(0), start, start)['params']
  rng = np.random.default_rng(seed)

  def weights(path, leaf):
    name, normal = path[-1].key, rng.normal(size=leaf.shape)
    if name == 'scale':
      return jnp.asarray(rng.uniform(0.5, 1.5, leaf.shape), jnp.float32)
    scale = {'rel_embedding': 2.0, 'embedding': 1.0}.get(name, 2 * leaf.shape[0] ** -0.5)
    return jnp.asarray(scale * normal, jnp.float32)

  params = jax.tree_util.tree_map_with_path(weights, shapes)
  if not cfg.logits_via_embedding:
    params['decoder']['logits_dense']['kernel'] -= params['token_embedder']['embedding'].T
  return Model(params=params, config=cfg)


def contrary(model: Model) -> Model:
  """The same model with its logits negated: its best token is the other's worst."""
  params = jax.tree.map(lambda x: x, model.params)
  kernel = params['decoder']['logits_dense']['kernel']
  params['decoder']['logits_dense'] = {'kernel': -kernel}
  return model.replace(params=params)


def inputs(batch: int, length: int = 7, seed: int = 0) -> np.ndarray:
  """Encoder tokens [batch, length] of different lengths, EOS last, 0-padded."""
  rng = np.random.default_rng(seed)
  tokens = rng.integers(2, PIECES, size=(batch, length)).astype(np.int32)
  ends = rng.integers(1, length, size=batch)
  tokens[np.arange(batch), ends] = 1
  return np.where(np.arange(length) <= ends[:, None], tokens, 0)


def assert_same_text(model: Model, encoder_tokens, ours, theirs, margin: float = 1e-4):
  """Two greedy texts [B, L] are equal; a difference is only a tie nearer than `margin`."""
  for row in np.flatnonzero((ours != theirs).any(axis=1)):
    at = int(np.argmax(ours[row] != theirs[row]))
    before = np.append(model.config.decoder_start_id, ours[row, :at])
    logits = np.asarray(model.logits(encoder_tokens[row:row + 1], before[None]))[0, -1]
    second, best = np.sort(logits[:model.num_tokens])[-2:]
    assert best - second < margin, (
        f'row {row} differs at {at} where the best token leads by {best - second}')


def vocabulary(folder, text: str = 'ein Haus am See und noch ein Haus am Meer', size: int = PIECES):
  """A SentencePiece vocabulary of characters, with T5's ids."""
  buffer = io.BytesIO()
  sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=iter([text]), model_writer=buffer, model_type='char', vocab_size=size,
      hard_vocab_limit=False, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2)
  path = folder / f'{len(text)}-{size}.model'
  path.write_bytes(buffer.getvalue())
  return Vocabulary(path)
