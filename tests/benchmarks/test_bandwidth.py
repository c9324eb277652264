"""What a step reads, and how fast memory is read."""

import jax
import jax.numpy as jnp
import tiny

from specdec_jax.benchmarks import bandwidth


def test_bytes_are_those_of_the_decoder_and_its_logits():
  model = tiny.random_t5(0)
  whole = sum(x.nbytes for x in jax.tree.leaves(model.params['decoder']))
  assert 0.3 * whole < bandwidth.weight_bytes(model) < whole


def test_more_bytes_take_longer():
  small, large = 1 << 16, 1 << 22
  seconds = [size / bandwidth.bytes_per_second(size, repeats=1, seconds=0.02) for size in (small, large)]
  assert seconds[1] > 2 * seconds[0] > 0


def test_a_turn_of_the_loop_is_not_left_out():
  array = jnp.ones((4096, 1024))
  once, often = (min(bandwidth._seconds(bandwidth._sums, array, times) for _ in range(3)) for times in (2, 20))
  assert often > 3 * once
