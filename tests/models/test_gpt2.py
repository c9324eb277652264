"""GPT-2: blocks and rewinds against a teacher-forced pass, prompts of several lengths, limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import specdec_jax as sd
from specdec_jax.model import Model
from specdec_jax.models.config import GPT2Config
from specdec_jax.models.gpt2 import GPT2

GREEDY = sd.Sampling(temperature=0.0)


def random_gpt2(seed: int, **changes) -> Model:
  """Weights widened, so that every token depends on all before it."""
  cfg = GPT2Config(**{'vocab_size': 20, 'emb_dim': 16, 'num_heads': 2, 'num_layers': 2,
                      'max_positions': 40, 'eos_id': 1, **changes})
  shapes = jax.eval_shape(GPT2(cfg).init, jax.random.key(0), jnp.zeros((1, 2), jnp.int32))['params']
  rng = np.random.default_rng(seed)
  widen = lambda leaf: jnp.asarray(rng.normal(size=leaf.shape) * 0.5, jnp.float32)
  return Model(params=jax.tree.map(widen, shapes), config=cfg)


TARGET, DRAFT = random_gpt2(0), random_gpt2(1, num_layers=1, emb_dim=8)
PROMPTS = np.random.default_rng(0).integers(0, 20, (4, 6)).astype(np.int32)
LENGTHS = np.array([6, 1, 3, 4], np.int32)
PROMPTS[3, 3] = 0  # a prompt that ends in id 0
PROMPTS = np.where(np.arange(6) < LENGTHS[:, None], PROMPTS, 0)


def test_blocks_and_rewinds_equal_a_teacher_forced_pass():
  tokens = np.random.default_rng(1).integers(0, 20, (3, 12)).astype(np.int32)
  whole = np.asarray(TARGET.logits(decoder_tokens=tokens))
  cache = TARGET.prefill(np.full((3, 4), 7, np.int32), 20)  # stale entries, all written again
  at = np.array([0, 0, 0])
  for block in (3, 1, 4, 2):
    wrong = (tokens + 1) % 20
    _, cache = TARGET.step(cache, np.stack([wrong[b, i:i + block] for b, i in enumerate(at)]), at)
    fed = np.stack([tokens[b, i:i + block] for b, i in enumerate(at)])
    logits, cache = TARGET.step(cache, fed, at)
    for b, i in enumerate(at):
      np.testing.assert_allclose(logits[b], whole[b, i:i + block], atol=2e-5)
    at = at + np.array([block, 1, block - 1])


@pytest.mark.parametrize('gamma, draft', [(1, DRAFT), (8, DRAFT), (3, TARGET)])
def test_greedy_continues_each_prompt_as_a_pass_over_the_whole_text_does(gamma, draft):
  r = sd.speculative_decode(TARGET, sd.ModelDrafter(draft), PROMPTS, lengths=LENGTHS, gamma=gamma,
                            sampling=GREEDY, max_decode_len=12)
  for row, length in enumerate(LENGTHS):
    text = PROMPTS[row, :length].tolist()
    for token in r.tokens[row, :r.lengths[row]].tolist():
      logits = np.asarray(TARGET.logits(decoder_tokens=np.array([text + [0] * (20 - len(text))])))
      assert token == logits[0, len(text) - 1].argmax()
      text.append(token)
    assert r.lengths[row] == 12 or text[-1] == 1
  if draft is TARGET:
    assert r.stats.acceptance_rate == 1.0


def test_alone_and_together_say_the_same():
  decode = lambda rows: sd.speculative_decode(
      TARGET, sd.ModelDrafter(DRAFT), PROMPTS[rows], lengths=LENGTHS[rows], ids=rows, gamma=3,
      max_decode_len=10)
  together = decode(np.arange(4))
  for row in range(4):
    np.testing.assert_array_equal(decode(np.array([row])).tokens[0], together.tokens[row])


def test_alpha_sees_the_text_behind_each_prompt():
  found = sd.alpha(TARGET, TARGET, PROMPTS, num_tokens=60, lengths=LENGTHS, max_decode_len=8)
  assert found.alpha > 0.999
  assert sd.alpha(TARGET, DRAFT, PROMPTS, num_tokens=60, lengths=LENGTHS, max_decode_len=8).alpha < 0.9


@pytest.mark.parametrize('options, message', [
    ({'lengths': [6, 0, 3, 4]}, r'lengths go from 0 to 6; they must be 1 to 6'),
    ({'lengths': [7, 1, 3, 4]}, r'lengths go from 1 to 7;'),
    ({'lengths': [6, 1, 3]}, r'lengths must be 4 integers, one a row of tokens'),
    ({'max_decode_len': 35}, r'Row 0 has a prompt of 6 tokens; with max_decode_len = 35 that is 41 '
                             'positions, and the model has 40'),
])
def test_bad_prompts_are_named(options, message):
  with pytest.raises(ValueError, match=message):
    sd.autoregressive_decode(TARGET, PROMPTS, **{'lengths': LENGTHS, 'max_decode_len': 8, **options})


def test_the_last_positions_of_the_context_are_used():
  r = sd.speculative_decode(TARGET, sd.ModelDrafter(DRAFT), PROMPTS[:1], gamma=7, sampling=GREEDY,
                            max_decode_len=34)
  alone = sd.autoregressive_decode(TARGET, PROMPTS[:1], sampling=GREEDY, max_decode_len=34)
  np.testing.assert_array_equal(r.tokens, alone.tokens)


def test_kinds_of_models_are_not_mixed():
  import tiny
  with pytest.raises(ValueError, match='decoder-only and the other has an encoder'):
    sd.speculative_decode(tiny.random_t5(0), sd.ModelDrafter(DRAFT), tiny.inputs(2))
  with pytest.raises(ValueError, match='Leave lengths out'):
    sd.autoregressive_decode(tiny.random_t5(0), tiny.inputs(2), lengths=[7, 7])
