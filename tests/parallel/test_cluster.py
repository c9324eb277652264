"""What jax finds of the processes of a job, by the environment that launchers set."""

import os

import jax
import pytest

from specdec_jax.errors import SettingError
from specdec_jax.parallel import cluster

SLURM = {'SLURM_JOB_ID': '7', 'SLURM_STEP_NODELIST': 'node[003-005],other', 'SLURM_NTASKS': '4', 'SLURM_PROCID': '2',
         'SLURM_LOCALID': '1', 'SLURM_STEP_NUM_NODES': '2'}
OPEN_MPI = {'OMPI_MCA_orte_hnp_uri': '1531576320.0;tcp://10.96.0.1,10.148.0.1:34911', 'OMPI_COMM_WORLD_SIZE': '3',
            'OMPI_COMM_WORLD_RANK': '1', 'OMPI_COMM_WORLD_LOCAL_RANK': '0'}


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
  for name in [n for n in os.environ if n.startswith(('SLURM_', 'OMPI_', 'TPU_', 'KUBERNETES_'))]:
    monkeypatch.delenv(name)


@pytest.fixture
def settings(monkeypatch):
  """What is set of jax's configuration."""
  made = {}
  monkeypatch.setattr(jax.config, 'update', made.__setitem__)
  return made


@pytest.mark.parametrize('environment, found, devices', [
    (SLURM, ('node003:61447', 4, 2), '1'),  # a port that follows from the job's number
    (OPEN_MPI, ('10.96.0.1', 3, 1), '0')])
def test_launchers(monkeypatch, settings, environment, found, devices):
  for name, value in environment.items():
    monkeypatch.setenv(name, value)
  address, count, index = cluster.find(5)
  assert (address.startswith(found[0]), count, index) == (True, *found[1:])
  assert settings == {'jax_cuda_visible_devices': devices, 'jax_rocm_visible_devices': devices}


def test_no_launcher():
  with pytest.raises(SettingError, match=r'no Cloud TPU slice, Slurm or Open MPI job; set Hosts\.coordinator_address'):
    cluster.find(5)


@pytest.mark.parametrize('fails, words', [
    (AttributeError('auto_detect'), f'jax {jax.__version__} does not show which processes it finds'),
    (RuntimeError('the metadata\nserver is down'), r'found no other processes \(the metadata server is down\)')])
def test_what_jax_cannot_do_is_told_with_what_to_set(monkeypatch, fails, words):
  from jax._src import clusters

  def detect(*unused):
    raise fails

  monkeypatch.setattr(clusters.ClusterEnv, 'auto_detect_unset_distributed_params', detect)
  with pytest.raises(SettingError, match=words + r'.*; set Hosts\.coordinator_address'):
    cluster.find(5)
