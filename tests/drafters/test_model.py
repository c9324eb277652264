"""A model as the drafter: which pairs may work together, and what it proposes."""

import jax
import numpy as np
import pytest
import tiny

from specdec_jax.decoding.inputs import unplaced_request
from specdec_jax.drafters.interface import Text
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.sampling import Sampling
from specdec_jax.standardizer import Standardizer
from specdec_jax.tree import Tree

TARGET, DRAFT = tiny.random_t5(0), tiny.random_t5(1)
GAMMA = 3
INPUTS = tiny.inputs(4)


@pytest.fixture(scope='module')
def vocabularies(tmp_path_factory):
  folder = tmp_path_factory.mktemp('vocabularies')
  return tiny.vocabulary(folder), tiny.vocabulary(folder, 'andere Zeichen: xyz, 123'), tiny.vocabulary(folder)


def test_same_tokenizer_is_taken_whatever_the_rows(vocabularies):
  ours, _, again = vocabularies
  ModelDrafter(DRAFT.replace(vocabulary=ours)).check(TARGET.replace(vocabulary=again))
  more_rows = tiny.random_t5(1, vocab_size=400).replace(vocabulary=ours)
  ModelDrafter(more_rows).check(TARGET.replace(vocabulary=ours))


def test_other_tokenizer_is_refused_by_name(vocabularies):
  ours, other, _ = vocabularies
  with pytest.raises(ValueError, match='different tokenizers') as error:
    ModelDrafter(DRAFT.replace(vocabulary=other)).check(TARGET.replace(vocabulary=ours))
  for vocabulary in (ours, other):
    assert vocabulary.digest[:8] in str(error.value) and str(vocabulary.size) in str(error.value)
  first = next(i for i, (a, b) in enumerate(zip(other.pieces, ours.pieces)) if a != b)
  assert f"id {first} is {other.pieces[first]!r} in the draft's and {ours.pieces[first]!r}" in str(error.value)


def test_one_tokenizer_in_two_files_is_one(vocabularies):
  """Sentinels in the file or after it, and metadata, make no other tokenizer."""
  from specdec_jax.data.tokenizers_making import of_sentencepiece
  from specdec_jax.data.tokenizers_vocabulary import TokenizersVocabulary
  ours = vocabularies[0]
  theirs = TokenizersVocabulary.of(of_sentencepiece(ours.model_bytes, 1), 'x', encoder=True)
  for a, b in ((ours, theirs), (theirs, ours), (ours.with_sentinels(1), theirs)):
    ModelDrafter(DRAFT.replace(vocabulary=a)).check(TARGET.replace(vocabulary=b))


def test_tables_that_differ_in_more_than_padding_are_refused(vocabularies):
  far, near = tiny.random_t5(1, vocab_size=152), tiny.random_t5(1, vocab_size=151)
  for vocabulary in (None, vocabularies[0]):  # known on one side only
    ModelDrafter(near).check(TARGET.replace(vocabulary=vocabulary))
    with pytest.raises(ValueError, match='The draft has 152 logits, the target 24: more than padding'):
      ModelDrafter(far).check(TARGET.replace(vocabulary=vocabulary))


def test_name_says_how_large_it_is():
  assert ModelDrafter(DRAFT).name == 'model (1 decoder layers of width 16)'


def propose(model, history, position, sampling, blocks=1, accept=GAMMA, inputs=INPUTS):
  """Runs `blocks` proposals, each time accepting `accept` draft tokens and one more, token 9."""
  standardizer = Standardizer.of(sampling, num_rows=tiny.ROWS, num_tokens=tiny.PIECES)
  drafter, prefix_end = ModelDrafter(model), np.zeros(4, np.int32)
  state = drafter.prefill(unplaced_request(model, inputs, None), history.shape[1])
  run = jax.jit(lambda s, h, p, k: drafter.propose(s, Text(h, p, prefix_end), Tree.chain(GAMMA), k, standardizer))
  for block in range(blocks):
    keys = jax.random.split(jax.random.key(block), 4)
    proposal, state = run(state, history, position, keys)
    tokens, q = np.asarray(proposal.tokens), proposal.q
    if block < blocks - 1:
      for row in range(4):
        history[row, position[row] + 1:position[row] + 1 + accept] = tokens[row, :accept]
        history[row, position[row] + 1 + accept] = 9
      position = position + accept + 1
  return history, position, tokens, np.asarray(q)


def teacher_forced(model, history, position, tokens, inputs=INPUTS):
  """The distributions at the places of the proposed tokens: float32 [4, GAMMA, V]."""
  text = history.copy()
  for row in range(4):
    text[row, position[row] + 1:position[row] + 1 + GAMMA] = tokens[row]
  logits = np.array(model.logits(inputs, text))
  logits[..., tiny.PIECES:] = -np.inf
  rows = np.arange(4)[:, None]
  return np.asarray(jax.nn.softmax(logits[rows, position[:, None] + np.arange(GAMMA)]))


@pytest.mark.parametrize('blocks, accept', [(1, GAMMA), (2, GAMMA), (3, GAMMA), (3, 1), (4, 0)])
def test_distributions_are_those_of_the_text_so_far(blocks, accept):
  """At the start, after full blocks and after rejections: no entry is missing or stale."""
  history, position = np.zeros((4, 20), np.int32), np.zeros(4, np.int32)
  history, position, tokens, q = propose(DRAFT, history, position, Sampling(), blocks, accept)
  np.testing.assert_allclose(q, teacher_forced(DRAFT, history, position, tokens), atol=1e-5)
  assert (tokens < tiny.PIECES).all()


def test_greedy_proposal_is_the_argmax_and_its_distribution_one_hot():
  history, position = np.zeros((4, 20), np.int32), np.zeros(4, np.int32)
  history, position, tokens, q = propose(DRAFT, history, position, Sampling(temperature=0), 2)
  assert (q.sum(-1) == 1).all() and ((q == 0) | (q == 1)).all()
  np.testing.assert_array_equal(q.argmax(-1), tokens)
  soft = teacher_forced(DRAFT, history, position, tokens)
  np.testing.assert_array_equal(soft.argmax(-1), tokens)
