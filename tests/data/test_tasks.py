"""The one test that imports TensorFlow, in a process of its own."""

import json
import subprocess
import sys

import pytest

from specdec_jax import paths

MODULE = """
import functools
import seqio
import tensorflow as tf

TEXTS = [('Open the file.', 'Datei öffnen.'), ('Close the window.', 'Fenster schließen.')]

def records(split, shuffle_files=False, seed=None):
  return tf.data.Dataset.from_tensor_slices({
      'inputs': [a for a, _ in TEXTS], 'targets': [b for _, b in TEXTS],
      'id': ['one', 'two']})

vocabulary = seqio.SentencePieceVocabulary('VOCABULARY')
features = {k: seqio.Feature(vocabulary, add_eos=True) for k in ('inputs', 'targets')}
source = seqio.FunctionDataSource(records, splits=['test'])
seqio.TaskRegistry.add('tiny', source=source, output_features=features, preprocessors=[
    seqio.preprocessors.tokenize, seqio.preprocessors.append_eos])

def drop(dataset):
  keep = ('inputs', 'targets')
  return dataset.map(lambda x: {k: x[k] for k in keep})

seqio.TaskRegistry.add('tiny_ids', source=source, output_features=features, preprocessors=[
    seqio.preprocessors.tokenize, drop, seqio.preprocessors.append_eos])
"""

PROGRAM = """
import dataclasses, json, sys
from specdec_jax.data import tasks

def attempt(*args, **kwargs):
  try:
    return [dataclasses.astuple(e) for e in tasks.task_examples(*args, **kwargs)]
  except (ValueError, ImportError) as e:
    return f'{type(e).__name__}: {e}'

assert 'tensorflow' not in sys.modules and 'seqio' not in sys.modules
print(json.dumps([
    attempt('tiny', module='no_such_module'),
    attempt('tiny', module='tiny_tasks'),
    attempt('tiny_ids', limit=1),
    attempt('tiny', split='validation'),
    attempt('other')]))
"""


@pytest.fixture(scope='module')
def answers(tmp_path_factory):
  folder = tmp_path_factory.mktemp('tasks')
  vocabulary = str(paths.embedded_dir('ende/spiece.model'))
  (folder / 'tiny_tasks.py').write_text(MODULE.replace('VOCABULARY', vocabulary))
  command = f'import sys; sys.path[:0] = [{str(folder)!r}, {str(paths.PACKAGE.parent)!r}]\n'
  run = subprocess.run([sys.executable, '-c', command + PROGRAM], check=True,
                       capture_output=True, text=True)
  return json.loads(run.stdout.splitlines()[-1])


def test_text_references_and_own_ids(answers):
  assert answers[1] == [['one', 'Open the file.', 'Datei öffnen.'],
                        ['two', 'Close the window.', 'Fenster schließen.']]


def test_token_ids_are_decoded_where_the_text_is_gone(answers):
  assert answers[2] == [[0, 'Open the file.', 'Datei öffnen.']]


def test_faults_are_one_line(answers):
  assert answers[0].startswith("ImportError: Module 'no_such_module', to register the seqio task")
  assert answers[3] == "ValueError: seqio task 'tiny' has no split 'validation'; it has test."
  assert answers[4].startswith("ValueError: No seqio task or mixture 'other' is registered")
