import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.data.examples import Example
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.jobs import fingerprint

EXAMPLES = [Example(0, 'a', 'b'), Example('c', 'd')]


def test_every_part_of_the_examples_counts():
  seen = fingerprint.of_examples(EXAMPLES)
  assert seen == fingerprint.of_examples(iter(EXAMPLES))
  one, two = EXAMPLES
  others = [[two, one], [one], [one, two, two], [dataclasses.replace(one, id='0'), two],
            [dataclasses.replace(one, text='A'), two], [dataclasses.replace(one, reference='B'), two],
            [dataclasses.replace(one, tokens=(5, 1)), two], [dataclasses.replace(one, tokens=(51,)), two],
            [one, dataclasses.replace(two, reference='')], [one, dataclasses.replace(two, reference='None')]]
  assert len({seen, *map(fingerprint.of_examples, others)}) == len(others) + 1


def test_every_id_of_training_pairs_counts():
  pairs = [([5, 6, 1], [7, 1]), ([8, 1], [9, 10, 1])]
  seen = fingerprint.of_pairs(pairs)
  assert seen == fingerprint.of_pairs([(np.array(s), tuple(t)) for s, t in pairs])
  others = [pairs[::-1], pairs[:1], [([5, 6], [1, 7, 1]), pairs[1]], [([5, 6, 1], [7, 2]), pairs[1]], []]
  assert len({seen, *map(fingerprint.of_pairs, others)}) == len(others) + 1


def test_every_bit_of_the_weights_counts(target):
  seen = fingerprint.of_weights(target)
  assert seen == fingerprint.of_weights(target.replace(params=jax.tree.map(np.asarray, target.params)))
  leaves, structure = jax.tree.flatten(target.params)
  for which in (0, len(leaves) // 2, -1):
    bits = np.array(leaves[which]).view(np.uint32)
    bits.reshape(-1)[-1] ^= 1
    changed = list(leaves)
    changed[which] = bits.view(np.float32)
    assert fingerprint.of_weights(target.replace(params=jax.tree.unflatten(structure, changed))) != seen


def test_names_types_sizes_and_vocabulary_count(target, draft):
  changes = [
      target, draft, target.replace(vocabulary=None), ModelDrafter(target), None, {'a': target},
      target.replace(config=dataclasses.replace(target.config, num_pieces=target.config.num_pieces - 1)),
      target.replace(params=jax.tree.map(lambda x: x.astype(jnp.bfloat16), target.params)),
      ModelDrafter(draft), ModelDrafter(draft.replace(vocabulary=None))]
  assert len(set(map(fingerprint.of_weights, changes))) == len(changes)


@pytest.mark.parametrize('shape', [(), (3,), (0, 2)])
def test_arrays_of_any_shape(shape):
  assert fingerprint.of_weights(jnp.zeros(shape)) == fingerprint.of_weights(np.zeros(shape, np.float32))
