import concurrent.futures
import multiprocessing

import jax
import jax.numpy as jnp
import pytest

from specdec_jax.analysis import profile
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import UserError
from specdec_jax.sampling import Sampling

TEXT = '''
  %fusion.3 = f32[2]{0} fusion(%p), metadata={op_type="dot" op_name="jit(f)/while/body/draft/T5.step/dot"}
  ROOT tanh.1 = f32[2]{0} tanh(%fusion.3), metadata={op_name="jit(f)/while/body/target/tanh" line=3}
  %while.2 = (f32[2]) while(%t), metadata={op_name="jit(f)/while"}
  %copy.8 = f32[2]{0} copy(%q)
  %dot.5 = f32[2]{0} dot(%copy.8, %fusion.3), backend_config={}
  %dot.6 = f32[2]{0} dot(%dot.5, %p), calls=%fusion.3
  %rule = f32[2]{0} add(%dot.6, %p), metadata={op_name="jit(f)/while/body/add"}
  %copy.9 = f32[2]{0} copy(%rule)
  %add = f32[2]{0} add(%p, %p), metadata={op_name="jit(f)/draft_encoder/targets/add"}
'''


def test_operations_belong_to_scopes():
  """Those without a name of origin to that of their operands or of what they feed."""
  assert profile.operation_scopes(TEXT) == {
      'fusion.3': 'draft', 'tanh.1': 'target', 'add': 'draft_encoder', 'dot.5': 'draft',
      'dot.6': 'draft', 'copy.8': 'draft'}


@pytest.mark.parametrize('intervals, length', [
    ([], 0), ([(1, 2)], 1), ([(4, 6), (1, 3), (2, 5)], 5), ([(0, 10), (2, 3), (10, 11), (20, 21)], 12)])
def test_time_covered_counts_overlaps_once(intervals, length):
  assert profile.covered(intervals) == length


def apart(function, *args):
  """In a process of its own: where tests/tpu has loaded libtpu, jax 0.10's profiler ends the process."""
  with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context('spawn')) as pool:
    return pool.submit(function, *args).result()


def cost_of_a_decode(target, draft):
  tokens = target.encode(['the file cannot be opened', 'new media'])
  return profile.measure(target, ModelDrafter(draft), tokens, 3, Sampling(temperature=0.0),
                         max_decode_len=12)


@pytest.mark.long
def test_costs_of_a_decode_from_the_profiler(target, draft):
  cost = apart(cost_of_a_decode, target, draft)
  parts = (cost.draft_step, cost.target_step, cost.verify_pass, cost.target_encoder,
           cost.draft_encoder)
  assert cost.gamma == 3 and min(parts) > 0 and max(parts) < 1


def seconds_of_a_known_program(directory):
  @jax.jit
  def f(x):
    with jax.named_scope('draft'):
      y = jnp.tanh(x @ x)
    with jax.named_scope('target'):
      for _ in range(16):
        y = jnp.tanh(y @ x)
    return y

  x = jnp.full((200, 200), 0.01)
  program = f.lower(x).compile()
  jax.block_until_ready(program(x))
  with jax.profiler.trace(directory):
    for _ in range(10):
      jax.block_until_ready(program(x))
  return profile.scope_seconds(directory, program.as_text())


def test_scopes_of_a_program_that_is_known(tmp_path):
  """Sixteen products under 'target', one under 'draft'."""
  seconds = apart(seconds_of_a_known_program, str(tmp_path))
  assert set(seconds) == {'draft', 'target'}
  assert 3 < seconds['target'] / seconds['draft'] < 80


def test_a_process_that_the_profiler_would_end_is_refused(target, draft, tmp_path, monkeypatch):
  maps = tmp_path / 'maps'
  maps.write_text('7f00-7f01 r-xp 0 08:01 7 /site-packages/libtpu/libtpu.so')
  monkeypatch.setattr(profile, '_CRASHES', True)
  monkeypatch.setattr(profile, '_LIBRARIES', maps)
  with pytest.raises(UserError, match='in a process of its own'):
    cost_of_a_decode(target, draft)


def test_a_directory_without_a_profile_is_named(tmp_path):
  with pytest.raises(FileNotFoundError, match=r'holds no profile'):
    profile.scope_seconds(str(tmp_path), TEXT)
