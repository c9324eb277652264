"""Stops of this process, and of others where the process itself is ended."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from specdec_jax import stopping
from specdec_jax.stopping import Stopped, stoppable

ROOT = pathlib.Path(__file__).resolve().parents[1]


def never(stopped):
  raise AssertionError(f'the main thread was not stopped: {stopped}')


def test_a_thread_stops_the_main_thread_with_its_reason():
  with pytest.raises(Stopped, match='^error: the lock is lost$') as caught, stoppable(never):
    threading.Timer(0.05, stopping.stop, ['the lock is lost']).start()
    time.sleep(20)
  assert caught.value.code == 1 and caught.value.reason == 'the lock is lost'


def test_the_first_reason_counts_and_nothing_comes_after_the_end():
  with pytest.raises(Stopped, match='^error: one$'), stoppable(never):
    stopping.stop('one')
    stopping.stop('two')
    time.sleep(20)
  stopping.stop('three')  # nobody to stop: no signal ends this process
  time.sleep(0.05)


def test_hints_say_how_to_go_on_while_they_are_open():
  with pytest.raises(Stopped, match=r'^stopped by SIGTERM; 3 are done$') as caught, stoppable(never):
    with stopping.hint(lambda: 'never shown'):
      pass
    with stopping.hint(lambda: f'{1 + 2} are done'):
      os.kill(os.getpid(), signal.SIGTERM)
      time.sleep(20)
  assert caught.value.code == 143


@pytest.mark.parametrize('stop, told', [
    (lambda: os.kill(os.getpid(), signal.SIGINT), ['stopped by Ctrl-C']), (lambda: stopping.stop('x'), [])])
def test_a_signal_is_told_to_others_and_their_own_reasons_are_not(stop, told):
  heard = []
  with pytest.raises(Stopped), stoppable(never), stopping.told(heard.append), stopping.postponed():
    stop()
    time.sleep(0.3)
  assert heard == told


def test_a_stop_waits_for_the_end_of_what_postpones_it(capfd):
  seen = []
  with pytest.raises(Stopped, match='stopped by SIGTERM'), stoppable(never):
    with stopping.postponed():
      with stopping.postponed():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        seen.append('inner')
      seen.append('outer')
    seen.append('after')
  assert seen == ['inner', 'outer']
  assert 'specdec_jax: stopped by SIGTERM; what is being worked on has 10 s' in capfd.readouterr().err


def test_nothing_is_raised_where_nothing_was_asked_for():
  with stoppable(never), stopping.postponed():
    pass


HANGS = '''
import hashlib, sys
from specdec_jax import stopping
from specdec_jax.cli import ends
stopping.GRACE = 0.2
def run():
  released = stopping.before_exit(lambda: print('released', flush=True))
  with released, stopping.hint(lambda: 'go on'), stopping.postponed():
    print('ready', flush=True)
    hashlib.pbkdf2_hmac('sha256', b'', b'', 2 ** 31 - 1)  # one instruction of many minutes
sys.exit(ends.exit_code('command', run))
'''


@pytest.mark.parametrize('number, code, name', [(signal.SIGINT, 130, 'Ctrl-C'), (signal.SIGTERM, 143, 'SIGTERM')])
def test_what_never_comes_to_its_end_is_ended(number, code, name):
  process = subprocess.Popen([sys.executable, '-c', HANGS], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
  assert process.stdout.readline() == 'ready\n'
  process.send_signal(number)
  out, error = process.communicate(timeout=60)
  assert process.returncode == code and out == 'released\n'
  assert error.splitlines()[-1] == f'command: stopped by {name}; go on' and error.count('\n') == 2


def test_a_stop_is_not_lost_in_a_finaliser(capfd):
  """What is raised in one is only printed by the interpreter: the stop comes right after it."""
  class Slow:
    def __del__(self):
      os.kill(os.getpid(), signal.SIGTERM)
      time.sleep(0.1)

  with pytest.raises(Stopped, match='stopped by SIGTERM'), stoppable(never):
    slow = Slow()
    del slow
    time.sleep(20)
  assert 'ignored' not in capfd.readouterr().err
