"""How commands end; that a device call does not hold up a signal is tested in a process of its own."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from specdec_jax.cli import ends
from specdec_jax.errors import MissingError, SettingError

ROOT = pathlib.Path(__file__).resolve().parents[2]


def ended(error, capsys, **options):
  """Exit code and stderr of a command that raises `error`."""
  def run():
    raise error

  code = ends.exit_code('command', run, **options)
  return code, capsys.readouterr().err


def test_a_command_that_ends_well_says_nothing(capsys):
  assert ends.exit_code('command', lambda: 'ignored') == 0
  assert capsys.readouterr() == ('', '')


@pytest.mark.parametrize('error, line', [
    (SettingError('gamma is 0.\n  In call to configurable x'), 'command: error: gamma is 0.\n'),
    (MissingError("no file\nat 'x'."), "command: error: no file at 'x'.\n"),
    (SettingError(), 'command: error: SettingError\n'),
])
def test_what_the_user_can_mend_is_one_line(error, line, capsys):
  assert ended(error, capsys) == (1, line)
  code, text = ended(error, capsys, show_traceback=True)
  assert code == 1 and text.startswith('Traceback') and text.endswith(line)


@pytest.mark.parametrize('error', [ValueError('a bug'), OSError('a bug'), ImportError('a bug'), TypeError('a bug'),
                                   RuntimeError('a bug'), FloatingPointError('a bug')])
def test_any_other_error_keeps_its_traceback(error, capsys):
  code, text = ended(error, capsys)
  assert code == 1 and text.startswith('Traceback') and text.endswith(f'{type(error).__name__}: a bug\n')


@pytest.mark.parametrize('error', [MemoryError(), RuntimeError('RESOURCE_EXHAUSTED: Out of memory\nallocating 8')])
def test_out_of_memory_is_one_line_with_what_to_lower(error, capsys):
  code, text = ended(error, capsys, memory=lambda: 'lower gamma')
  reason = ' (RESOURCE_EXHAUSTED: Out of memory)' if str(error) else ''
  assert code == 1 and text == f'command: error: out of memory{reason}; lower gamma.\n'


@pytest.mark.parametrize('number, code, words', [
    (signal.SIGINT, 130, 'stopped by Ctrl-C'), (signal.SIGTERM, 143, 'stopped by SIGTERM')])
def test_a_signal_stops_the_command_and_its_handlers_come_back(number, code, words, capsys):
  before = signal.getsignal(number)
  seen = []

  def run():
    try:
      os.kill(os.getpid(), number)
      time.sleep(10)
    except Exception:  # pylint: disable=broad-except
      seen.append('taken for an error')
    finally:
      seen.append('closed')

  assert ends.exit_code('command', run) == code
  assert capsys.readouterr().err == f'command: {words}\n'
  assert seen == ['closed'] and signal.getsignal(number) is before


@pytest.mark.parametrize('number, code', [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_call_that_takes_no_signal_does_not_hold_up_the_end(number, code):
  """Such as a compilation; here a hash of hundreds of millions of rounds."""
  program = '''if True:
    import hashlib, sys
    from specdec_jax import stopping
    from specdec_jax.cli import ends
    stopping.GRACE = 0.2
    def run():
      print('ready', flush=True)
      hashlib.pbkdf2_hmac('sha256', b'', b'', 2 ** 31 - 1)
    sys.exit(ends.exit_code('command', run))'''
  process = subprocess.Popen([sys.executable, '-c', program], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, env={**os.environ, 'PYTHONPATH': str(ROOT)})
  assert process.stdout.readline() == 'ready\n'
  time.sleep(0.1)
  start = time.monotonic()
  process.send_signal(number)
  error = process.communicate(timeout=30)[1]
  assert process.returncode == code and time.monotonic() - start < 20
  assert error.startswith('command: stopped by') and error.count('\n') == 1
