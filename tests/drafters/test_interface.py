"""What all drafters have in common: the interface, and that distributions and proposals say the same."""

import every_drafter
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy

import specdec_jax as sd
from specdec_jax.decoding.state import hidden_before
from specdec_jax.drafters.interface import Request, Text, for_target
from specdec_jax.standardizer import Standardizer
from specdec_jax.tree import Tree

SIZE, GAMMA = 6, 3
TARGET = toy.random_toy(0, SIZE)
DRAFTERS = {name: for_target(drafter, TARGET) for name, drafter in every_drafter.make(1, SIZE).items()}
SAMPLING = sd.Sampling(temperature=1.3, top_k=4)
STANDARDIZER = Standardizer.of(SAMPLING, num_rows=8, num_tokens=5)
INPUTS = Request(tokens=jnp.array([[2, 3, 5, 2, 1], [4, 2, 1, 0, 0]]), lengths=jnp.array([5, 3]))
HISTORY = np.array([[0, 3, 5, 2, 3, 9, 9, 9, 9], [0, 4, 7, 7, 7, 7, 7, 7, 7]], np.int32)
PREFIX_END = np.zeros(2, np.int32)
POSITION = np.array([4, 1], np.int32)  # what stands after it in HISTORY is left over
TEXT = Text(history=HISTORY, position=POSITION, prefix_end=POSITION)


@pytest.mark.parametrize('name', DRAFTERS)
def test_every_kind_is_a_drafter(name):
  assert isinstance(DRAFTERS[name], sd.Drafter) and DRAFTERS[name].name
  DRAFTERS[name].check(toy.random_toy(0, SIZE))
  assert not isinstance(toy.random_toy(0), sd.Drafter)


@pytest.fixture(scope='module')
def proposed():
  """For each drafter: its draft, its distributions q, and the teacher-forced distributions at each head's place."""
  def one(name, drafter):
    position = np.minimum(POSITION, 1) if name == 'layer' or 'model' in name else POSITION  # its cache is empty
    cache, told = TARGET.with_hidden('prefill', INPUTS.tokens, HISTORY.shape[1])
    state = drafter.prefill(INPUTS.replace(hidden=told), HISTORY.shape[1])
    _, told = TARGET.with_hidden('step', cache, HISTORY, jnp.zeros(2, jnp.int32))
    keys = jax.random.split(jax.random.key(3), 2)
    where = Text(history=jnp.asarray(HISTORY), position=jnp.asarray(position), prefix_end=jnp.zeros(2, jnp.int32),
                 hidden=hidden_before(told, position, GAMMA + 1))
    proposal, _ = drafter.propose(state, where, Tree.chain(GAMMA), keys, STANDARDIZER)
    draft, q = proposal.tokens, proposal.q
    if q is None:
      q = jax.nn.one_hot(draft, STANDARDIZER.num_rows)
    text = jnp.asarray(HISTORY[:, 1:])
    for row, at in enumerate(position):
      text = text.at[row, at:at + GAMMA].set(draft[row])
    text = jnp.concatenate([HISTORY[:, :1], text], axis=1)
    distributions = [drafter.distributions(INPUTS, text, PREFIX_END, STANDARDIZER)] * GAMMA
    if name in ('parallel', 'heads'):
      distributions[1:] = [drafter.distributions(INPUTS, text, PREFIX_END, STANDARDIZER, offset=i)
                           for i in range(1, GAMMA)]
    return draft, q, [d[np.arange(2), position + i] for i, d in enumerate(distributions)]

  run = jax.jit(lambda drafters: {name: one(name, d) for name, d in drafters.items()})
  return jax.device_get(run(DRAFTERS))


@pytest.mark.parametrize('name', DRAFTERS)
def test_proposals_are_drawn_from_the_teacher_forced_distributions(name, proposed):
  draft, q, distributions = proposed[name]
  assert draft.shape == (2, GAMMA) and draft.dtype == np.int32
  assert q.shape == (2, GAMMA, 8) and q.dtype == np.float32
  np.testing.assert_allclose(q.sum(-1), 1, atol=1e-5)
  assert (q[..., 5:] == 0).all() or 'lookup' in name  # a copied token that is none is simply rejected
  assert (np.take_along_axis(q, draft[..., None], -1) > 0).all()
  for i in range(GAMMA if name != 'layer' else 1):  # a layer goes on from what it made itself
    np.testing.assert_allclose(distributions[i], q[:, i], atol=1e-5)


def test_heads_that_return_another_shape_are_refused():
  wrong = sd.ParallelDrafter(lambda params, state, history, position, gamma: np.zeros((2, 1, 8)))
  with pytest.raises(ValueError, match=r'parallel heads: heads returned logits \[2, 1, 8\]'):
    wrong.propose((), TEXT, Tree.chain(GAMMA), None, STANDARDIZER)


def test_the_first_tokens_of_a_text_have_heads_up_to_their_place():
  drafter = DRAFTERS['parallel']
  text = HISTORY[:, :5] % SIZE
  first, third = (np.asarray(drafter.distributions(INPUTS, text, PREFIX_END, STANDARDIZER, offset=o)) for o in (0, 2))
  np.testing.assert_allclose(third[:, 0], first[:, 0], atol=1e-6)
  assert (np.abs(third[:, 1:] - first[:, 1:]).max((0, 2)) > 1e-3).all()


def test_random_tokens_are_uniform_at_temperature_0_too():
  standardizer = Standardizer.of(sd.Sampling(temperature=0), num_rows=8, num_tokens=5)
  keys = jax.random.split(jax.random.key(0), 2)
  proposal, _ = sd.RandomDrafter().propose((), TEXT, Tree.chain(4000), keys, standardizer)
  draft, q = proposal.tokens, proposal.q
  assert (np.asarray(q) == np.array([0.2] * 5 + [0] * 3, np.float32)).all()
  counts = np.bincount(np.asarray(draft)[0], minlength=8)
  assert (counts[5:] == 0).all() and (abs(counts[:5] - 800) < 130).all()
  assert (draft[0] != draft[1]).any()
