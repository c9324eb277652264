"""A decode job that is killed again and again, in processes that are forked from this one before jax starts.

  python killed.py PAIR DIRECTORY KILLS SEED     prints how many kills fell where, as JSON

The job is decoded once without a kill, into DIRECTORY/whole, then with kills into DIRECTORY/0, DIRECTORY/1, ...: one
that came to its end is compared with the undisturbed one byte for byte, and the next begins.
"""

import collections
import json
import os
import pathlib
import random
import signal
import sys
import time

import specdec_jax as sd
from specdec_jax.data.examples import read_examples
from specdec_jax.decoding.running import Running
from specdec_jax.jobs import predictions, stream
from specdec_jax.jobs.claims import claimed
from specdec_jax.runs.decode import decode

PAUSE = 0.01  # seconds that each return of a loop and each line of the final file take longer, to be killed in
WHEN = ('starting', 'decoding', 'decoding', 'decoding', 'finishing')


def slowly(function):
  def instead(*args):
    time.sleep(PAUSE)
    return function(*args)
  return instead


def job(pair, directory):
  """In a process of its own."""
  import jax
  jax.config.update('jax_compilation_cache_dir', str(directory.parent / 'cache'))
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)
  jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)
  stream.WINDOW = 5
  Running.ended = slowly(Running.ended)
  predictions._line = slowly(predictions._line)
  with claimed(str(directory), {}) as output_dir:
    decode(output_dir, sd.load_model(pair / 'target'), read_examples(pair / 'inputs.jsonl'),
           sd.ModelDrafter(sd.load_model(pair / 'draft')), gamma=2, batch_size=3, max_decode_len=12, max_input_len=16)


def begin(pair, directory) -> int:
  """The id of a process with the job."""
  child = os.fork()
  if child:
    return child
  code = 1
  try:
    with open(directory.parent / 'log.txt', 'a', encoding='utf-8') as log:
      os.dup2(log.fileno(), 1)
      os.dup2(log.fileno(), 2)
    job(pair, directory)
    code = 0
  except BaseException:
    import traceback
    traceback.print_exc()
  finally:
    os._exit(code)


def killed(pair, directory, when, chance) -> int | None:
  """Runs the job and kills it at a moment of its work; its exit code where it came to its end before."""
  child = begin(pair, directory)
  partial, final = directory / predictions.PARTIAL_NAME, directory / (predictions.NAME + '.partial')
  size = partial.stat().st_size if partial.exists() else 0
  reached = {'starting': lambda: True, 'finishing': final.exists,
             'decoding': lambda: partial.exists() and partial.stat().st_size > size}[when]
  wait = chance.random() * {'starting': 2.0, 'decoding': 0.3, 'finishing': 0.1}[when]
  while not reached():
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
      return os.waitstatus_to_exitcode(status)
    time.sleep(0.001)
  time.sleep(wait)
  os.kill(child, signal.SIGKILL)
  code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
  return None if code == -signal.SIGKILL else code


def main(pair, directory, kills, seed):
  chance, counts, number = random.Random(seed), collections.Counter(), 0
  finished = lambda child: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
  assert finished(begin(pair, directory / 'whole')) == 0
  whole = (directory / 'whole' / predictions.NAME).read_bytes()

  def check(folder, code):
    assert code == 0 and (folder / predictions.NAME).read_bytes() == whole, f'{folder}: {code}'
    assert not (folder / predictions.PARTIAL_NAME).exists()
    counts['jobs'] += 1

  while sum(counts[when] for when in set(WHEN)) < kills:
    folder, when = directory / str(number), chance.choice(WHEN)
    code = killed(pair, folder, when, chance)
    if code is None:
      counts[when] += 1
    else:
      check(folder, code)
      number += 1
  folder = directory / str(number)
  check(folder, finished(begin(pair, folder)))
  print(json.dumps(counts))


if __name__ == '__main__':
  main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
