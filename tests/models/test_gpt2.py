"""GPT-2: blocks and rewinds against a teacher-forced pass, prompts of several lengths, limits."""

import jax
import numpy as np
import pytest
import tiny
from families import random_gpt2

import specdec_jax as sd

GREEDY = sd.Sampling(temperature=0.0)
LENGTH = 12


TARGET, DRAFT = random_gpt2(0), random_gpt2(1)  # of one shape: they share compiled programs
PROMPTS = np.random.default_rng(0).integers(0, 20, (4, 6)).astype(np.int32)
LENGTHS = np.array([6, 1, 3, 4], np.int32)
PROMPTS[3, 3] = 0  # a prompt that ends in id 0
PROMPTS = np.where(np.arange(6) < LENGTHS[:, None], PROMPTS, 0)


def decode(draft, gamma, rows=range(4), **options):
  rows = np.array(rows)
  return sd.speculative_decode(TARGET, sd.ModelDrafter(draft), PROMPTS[rows], lengths=LENGTHS[rows],
                               ids=rows, gamma=gamma, max_decode_len=LENGTH, **options)


def test_blocks_and_rewinds_equal_a_teacher_forced_pass():
  tokens = np.random.default_rng(1).integers(0, 20, (4, 18)).astype(np.int32)
  whole = np.asarray(TARGET.logits(decoder_tokens=tokens))
  step = jax.jit(TARGET.step)
  cache = jax.jit(TARGET.prefill, static_argnums=1)(np.full((4, 4), 7, np.int32), 20)  # all written again
  at = np.zeros(4, np.int32)
  for moves in ([3, 1, 2, 3], [3, 1, 1, 0], [1, 2, 3, 3]):
    block = lambda rows, at=at: np.stack([rows[b, i:i + 3] for b, i in enumerate(at)])
    _, cache = step(cache, block((tokens + 1) % 20), at)  # rejected: written over
    logits, cache = step(cache, block(tokens), at)
    np.testing.assert_allclose(logits, block(whole), atol=2e-5)
    at = at + np.array(moves, np.int32)


@pytest.mark.parametrize('draft', [DRAFT, TARGET], ids=['another', 'itself'])
def test_greedy_continues_each_prompt_as_a_pass_over_the_whole_text_does(draft):
  r = decode(draft, 8, sampling=GREEDY)
  for row, length in enumerate(LENGTHS):
    text = PROMPTS[row, :length].tolist() + r.tokens[row, :r.lengths[row]].tolist()
    logits = np.asarray(TARGET.logits(decoder_tokens=np.array([text + [0] * (18 - len(text))] * 4)))[0]
    assert text[length:] == logits[length - 1:len(text) - 1].argmax(-1).tolist()
    assert r.lengths[row] == LENGTH or text[-1] == 1
  assert r.lengths[0] == LENGTH  # up to the model's last position
  if draft is TARGET:
    assert r.stats.acceptance_rate == 1.0


def test_a_row_does_not_see_its_neighbours():
  together = decode(DRAFT, 2)
  for row in range(4):
    np.testing.assert_array_equal(decode(DRAFT, 2, [row] * 4).tokens[2], together.tokens[row])


def test_alpha_sees_the_text_behind_each_prompt():
  alpha = lambda draft: sd.alpha(TARGET, draft, PROMPTS, num_tokens=60, lengths=LENGTHS,
                                 max_decode_len=LENGTH).alpha
  assert alpha(TARGET) > 0.999
  assert alpha(DRAFT) < 0.9


@pytest.mark.parametrize('options, message', [
    ({'lengths': [6, 0, 3, 4]}, r'lengths go from 0 to 6; they must be 1 to 6'),
    ({'lengths': [7, 1, 3, 4]}, r'lengths go from 1 to 7;'),
    ({'lengths': [6, 1, 3]}, r'lengths must be integers of shape \[4\], one a row of tokens'),
    ({'max_decode_len': 13}, r'Row 0 has a prompt of 6 tokens; with max_decode_len = 13 that is 19 '
                             'positions, and the model has 18'),
])
def test_bad_prompts_are_named(options, message):
  with pytest.raises(ValueError, match=message):
    sd.autoregressive_decode(TARGET, PROMPTS, **{'lengths': LENGTHS, 'max_decode_len': 8, **options})


def test_kinds_of_models_are_not_mixed():
  with pytest.raises(ValueError, match='decoder-only and the other has an encoder'):
    sd.speculative_decode(tiny.random_t5(0), sd.ModelDrafter(DRAFT), tiny.inputs(2))
  with pytest.raises(ValueError, match='Leave lengths out'):
    sd.autoregressive_decode(tiny.random_t5(0), tiny.inputs(2), lengths=[7, 7])
  with pytest.raises(ValueError, match='made by encode'):
    tiny.random_t5(0).prompts(['a'])
