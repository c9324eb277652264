"""Several processes of one job on one machine: the predictions of one, and an end together."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest

from specdec_jax.data.examples import read_examples
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import SettingError
from specdec_jax.jobs.claims import claimed
from specdec_jax.parallel import hosts
from specdec_jax.parallel.hosts import Hosts
from specdec_jax.runs.decode import decode
from specdec_jax.sampling import Sampling

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]


SETTINGS = {'max_input_len': 16, 'max_decode_len': 8, 'gamma': 2, 'batch_size': 2}


class Job:
  """A sampled decode in several processes, each the same command."""

  def __init__(self, files, output_dir, devices: int = 1):
    self.files, self.output_dir, self.devices = files, output_dir, devices

  def start(self, count: int, fails: int | None = None) -> list[subprocess.Popen]:
    """`fails`: a process that fails as it compiles."""
    bindings = {'TARGET': f"'{self.files}/target'", 'DRAFT': f"'{self.files}/draft'",
                'INPUTS': f"'{self.files}/inputs.jsonl'", 'main.compilation_cache_dir': 'None',
                'decode.logits_processors': '(@fails_in_process(),)',
                **{f'decode.{name}': value for name, value in SETTINGS.items()}}
    command = [sys.executable, '-m', 'specdec_jax.main', f'--output_dir={self.output_dir}',
               '--gin_search_paths=tests/parallel']
    command += [f'--gin_file={f}.gin' for f in (
        'failing', 'gin/runs/decode', 'gin/drafters/model', 'gin/inputs/file', 'gin/sampling/temperature_1')]
    if self.devices > 1:
      bindings |= {'load_model.mesh': '@Mesh()', 'Mesh.model': self.devices}
    command += [f'--gin.{name}={value}' for name, value in bindings.items()]
    if count > 1:
      with socket.socket() as s:
        s.bind(('localhost', 0))
        address = f'localhost:{s.getsockname()[1]}'
      command += ['--gin.main.hosts=@Hosts()', f"--gin.Hosts.coordinator_address='{address}'",
                  f'--gin.Hosts.num_processes={count}', '--gin.Hosts.timeout=200']
    paths = [str(ROOT), str(HERE), os.environ.get('PYTHONPATH', '')]
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join(paths), 'JAX_PLATFORMS': 'cpu',
           'XLA_FLAGS': f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={self.devices}",
           'FAILS_IN_PROCESS': str(fails)}
    return [subprocess.Popen(command + ([f'--gin.Hosts.process_id={i}'] if count > 1 else []), cwd=ROOT,
                             env=env, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for i in range(count)]

  def run(self, count: int, fails: int | None = None):
    """Exit codes and what stood on stderr."""
    running = self.start(count, fails)
    errors = [p.communicate()[1] for p in running]
    return [p.returncode for p in running], errors


def lines(path):
  return [json.loads(line) for line in path.read_text(encoding='utf-8').splitlines()]


def without_scores(found):
  return [{k: v for k, v in line.items() if k != 'scores'} for line in found]


@pytest.fixture(scope='module')
def whole(files, target, draft, tmp_path_factory):
  """The predictions of one process, without scores: theirs depend on the compiler's last bits."""
  directory = tmp_path_factory.mktemp('whole')
  with claimed(str(directory), {}):
    decode(str(directory), target, read_examples(files / 'inputs.jsonl'), ModelDrafter(draft),
           sampling=Sampling(temperature=1.0), **SETTINGS)
  return without_scores(lines(directory / 'predictions.jsonl'))


def test_two_processes_write_what_one_does(files, whole, tmp_path):
  codes, errors = Job(files, tmp_path).run(2)
  assert codes == [0, 0], errors
  assert without_scores(lines(tmp_path / 'predictions.jsonl')) == whole
  share = lines(tmp_path / 'process_1' / 'predictions.partial.jsonl')
  assert 0 < len(share) < len(whole)
  assert json.loads((tmp_path / 'summary.json').read_text())['examples'] == len(whole)


@pytest.mark.long
def test_four_processes_with_a_mesh_each(files, whole, tmp_path):
  codes, errors = Job(files, tmp_path, devices=2).run(4)
  assert codes == [0] * 4, errors
  assert without_scores(lines(tmp_path / 'predictions.jsonl')) == whole


@pytest.mark.long
@pytest.mark.parametrize('failing, then', [(1, 2), (0, 1)])
def test_a_process_that_fails_ends_all_and_loses_nothing(files, whole, tmp_path, failing, then):
  """The other one stops with its reason; the same command, with fewer processes too, goes on."""
  job = Job(files, tmp_path)
  codes, errors = job.run(2, fails=failing)
  assert codes == [1, 1]
  assert f'specdec_jax: error: process {failing} failed: out of something' in errors[1 - failing]
  folders = [tmp_path, tmp_path / 'process_1']
  before = [line['index'] for line in lines(folders[1 - failing] / 'predictions.partial.jsonl')]
  assert len(before) < len(whole)
  codes, errors = job.run(then)
  assert codes == [0] * then, errors
  assert without_scores(lines(tmp_path / 'predictions.jsonl')) == whole
  if then == 2:
    share = lines(folders[1] / 'predictions.partial.jsonl')
    assert not set(before) & {line['index'] for line in share}, 'nothing is decoded twice'


@pytest.mark.long
@pytest.mark.parametrize('number, ended', [(signal.SIGTERM, 0), (signal.SIGTERM, 1), (signal.SIGKILL, 0),
                                           (signal.SIGKILL, 1)])
def test_the_end_of_a_process_ends_the_job_with_its_reason(files, whole, tmp_path, number, ended):
  """Wherever it is: here as it loads and compiles. The same command goes on."""
  job = Job(files, tmp_path)
  running = job.start(2)
  while not (tmp_path / 'process_1' / 'environment.json').exists():
    assert running[0].poll() is None and running[1].poll() is None
    time.sleep(0.1)
  running[ended].send_signal(number)
  start = time.monotonic()
  errors = [p.communicate()[1] for p in running]
  assert time.monotonic() - start < 30
  reason = 'was stopped by SIGTERM' if number == signal.SIGTERM else 'is gone: it was killed'
  said = [line for line in errors[1 - ended].splitlines() if line.startswith('specdec_jax: error:')]
  assert running[1 - ended].returncode == 1 and len(said) == 1
  assert said[0].startswith(f'specdec_jax: error: process {ended} {reason}'), errors
  assert 'Traceback' not in ''.join(errors) and running[ended].returncode == (143 if number == signal.SIGTERM else -9)
  codes, errors = job.run(2)
  assert codes == [0, 0], errors
  assert without_scores(lines(tmp_path / 'predictions.jsonl')) == whole


@pytest.fixture
def address():
  with socket.socket() as s:
    s.bind(('localhost', 0))
    return f'localhost:{s.getsockname()[1]}'


@pytest.mark.parametrize('number, ended, busy', [
    (signal.SIGTERM, 0, ''), (signal.SIGTERM, 1, 'busy'), (signal.SIGINT, 1, ''), (signal.SIGKILL, 0, 'busy'),
    (signal.SIGKILL, 1, '')])
def test_three_processes_end_together(address, number, ended, busy):
  """Within seconds, each with one line, though a device call may last for ever."""
  running = [subprocess.Popen([sys.executable, HERE / 'waits.py', address, '3', str(i), busy], cwd=ROOT, text=True,
                              env={**os.environ, 'PYTHONPATH': str(ROOT)}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) for i in range(3)]
  assert [p.stdout.readline() for p in running] == ['ready\n'] * 3
  running[ended].send_signal(number)
  start = time.monotonic()
  errors = [p.communicate()[1] for p in running]
  assert time.monotonic() - start < 20
  name = 'Ctrl-C' if number == signal.SIGINT else 'SIGTERM'
  for i, (process, error) in enumerate(zip(running, errors)):
    last = error.splitlines()[-1] if error else ''
    if i != ended:
      reason = 'is gone: it was killed' if number == signal.SIGKILL else f'was stopped by {name}'
      assert process.returncode == 1 and last.startswith(f'waits: error: process {ended} {reason}'), error
    elif number == signal.SIGKILL:
      assert process.returncode == -9
    else:
      assert process.returncode == 128 + number and last == f'waits: stopped by {name}', error
    assert error.count('\n') <= (2 if busy else 1), error


def test_one_process_says_and_hears_itself():
  assert hosts.count() == 1 and hosts.index() == 0
  assert hosts.gather('x', [1]) == [[1]] and list(hosts.bring('y', [2])) == []
  hosts.check()


@pytest.mark.parametrize('settings, words', [
    ({'num_processes': 2}, 'together, or none'),
    ({'coordinator_address': 'localhost:1', 'num_processes': 2, 'process_id': 2},
     r'process_id is 2; .*from 0 to 1 \(Hosts\.num_processes is 2\)'),
    ({'coordinator_address': 'localhost:1', 'num_processes': 1.5, 'process_id': 0}, 'num_processes is 1.5'),
    ({'coordinator_address': 'localhost:1', 'num_processes': '2', 'process_id': 0}, "num_processes is '2'"),
    ({'coordinator_address': 5, 'num_processes': 2, 'process_id': 0}, 'coordinator_address is 5'),
    ({'coordinator_address': 'localhost', 'num_processes': 2, 'process_id': 0}, "coordinator_address is 'localhost'"),
    ({'timeout': 0}, 'timeout is 0'), ({'timeout': None}, 'timeout is None')])
def test_settings(settings, words):
  with pytest.raises(SettingError, match=words):
    Hosts(**settings)
