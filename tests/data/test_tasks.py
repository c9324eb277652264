"""The one test that imports TensorFlow, in a process of its own."""

import json
import subprocess
import sys

import pytest

from specdec_jax import paths
from specdec_jax.data.vocabulary import Vocabulary

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
seqio.TaskRegistry.add('absent', source=seqio.TfdsDataSource('wmt14_translate/de-en:1.0.0', splits=('test',)),
                       output_features=features, preprocessors=[])

def drop(dataset):
  keep = ('inputs', 'targets')
  return dataset.map(lambda x: {k: x[k] for k in keep})

seqio.TaskRegistry.add('tiny_ids', source=source, output_features=features, preprocessors=[
    seqio.preprocessors.tokenize, drop, seqio.preprocessors.append_eos])
"""

PROGRAM = """
import dataclasses, json, sys
from specdec_jax.data import tasks
from specdec_jax.data.vocabulary import Vocabulary
from specdec_jax.training.pairs import task_pairs

PAPER = 'specdec_jax.data.t5_tasks'
PIECES = 'embedded:ende/spiece.model'

def attempt(*args, **kwargs):
  try:
    return [(e.id, e.text, e.reference) for e in tasks.task_examples(*args, **kwargs)]
  except (ValueError, ImportError) as e:
    return f'{type(e).__name__}: {e}'

assert 'tensorflow' not in sys.modules and 'seqio' not in sys.modules
print(json.dumps([
    attempt('tiny', module='no_such_module'),
    attempt('tiny', module='tiny_tasks'),
    attempt('tiny_ids', limit=1),
    attempt('tiny', split='validation'),
    attempt('other'),
    attempt('specdec_wmt14_ende', module=PAPER, vocabulary=PIECES,
            files={'test': FOLDER + '/ende.tsv'}),
    attempt('specdec_cnn_dm', module=PAPER, vocabulary=PIECES,
            files={'test': FOLDER + '/news.jsonl'}),
    attempt('specdec_cnn_dm', vocabulary=PIECES, files={'test': FOLDER + '/ende.tsv'}),
    tfds_data(), pairs(), evaluated(), absent(), attempt('specdec_wmt14_ende', split='test', vocabulary=PIECES)]))
"""

HELPERS = """
def write(name, config, version, split, record):
  import tensorflow as tf
  import tensorflow_datasets as tfds
  folder = '/'.join([FOLDER, name, *config, version])
  features = tfds.features.FeaturesDict({field: tfds.features.Text() for field in record})
  tf.io.gfile.makedirs(folder)
  with tf.io.TFRecordWriter(f'{folder}/{name}-{split}.tfrecord-00000-of-00001') as f:
    f.write(features.serialize_example(record))
  template = tfds.core.ShardedFileTemplate(
      data_dir=folder, dataset_name=name, split=split, filetype_suffix='tfrecord')
  tfds.folder_dataset.write_metadata(
      data_dir=folder, features=features, check_data=False, split_infos=[tfds.core.SplitInfo(
          name=split, shard_lengths=[1], num_bytes=1, filename_template=template)])

def tfds_data():
  write('wmt_t2t_translate', ['de-en'], '1.0.0', 'validation', {'en': 'a cat', 'de': 'eine Katze'})
  write('cnn_dailymail', [], '3.4.0', 'train', {
      'article': 'Rain.', 'highlights': 'It rains .', 'publisher': 'x', 'id': '1'})
  write('lm1b', [], '1.1.0', 'test', {'text': 'hello'})
  read = {'specdec_wmt14_ende': 'validation', 'specdec_cnn_dm': 'train', 'specdec_lm1b': 'test'}
  return [attempt(name, split=split, vocabulary=PIECES, data_dir=FOLDER)
          for name, split in read.items()]

def pairs():
  made = task_pairs('specdec_wmt14_ende', Vocabulary(PIECES), 'train',
                    files={'train': FOLDER + '/ende.tsv'}, max_source_len=8)
  return [[source.tolist(), target.tolist()] for source, target in made]

def absent():
  import tensorflow_datasets as tfds
  def no_network(self, **kwargs):
    raise ConnectionError('no network\\nat all')
  said, tasks.note, tfds.core.DatasetBuilder.download_and_prepare = [], lambda text: said.append(text), no_network
  return said, attempt('absent', data_dir=FOLDER + '/empty')

def evaluated():
  import seqio
  of = lambda name: seqio.TaskRegistry.get(name).metric_fns
  return [of('specdec_wmt14_ende')[0](['ein Haus am See'], ['ein Haus am See']),
          of('specdec_cnn_dm')[0](['a b'], ['a b'])]
"""


@pytest.fixture(scope='module')
def answers(tmp_path_factory):
  folder = tmp_path_factory.mktemp('tasks')
  vocabulary = str(paths.embedded_dir('ende/spiece.model'))
  (folder / 'tiny_tasks.py').write_text(MODULE.replace('VOCABULARY', vocabulary))
  (folder / 'ende.tsv').write_text('en\tde\nOpen the file.\tDatei öffnen.\n')
  (folder / 'news.jsonl').write_text(
      json.dumps({'highlights': 'It rains .\nIt pours .', 'article': 'Rain fell.'}) + '\n')
  command = (f'import sys; sys.path[:0] = [{str(folder)!r}, {str(paths.PACKAGE.parent)!r}]\n'
             f'FOLDER = {str(folder)!r}\n')
  before, after = PROGRAM.split("assert 'tensorflow'")
  program = command + before + HELPERS + "assert 'tensorflow'" + after
  run = subprocess.run([sys.executable, '-c', program], check=True, capture_output=True, text=True)
  return [*json.loads(run.stdout.splitlines()[-1]), run.stderr]


def test_text_references_and_own_ids(answers):
  assert answers[1] == [['one', 'Open the file.', 'Datei öffnen.'],
                        ['two', 'Close the window.', 'Fenster schließen.']]


def test_token_ids_are_decoded_where_the_text_is_gone(answers):
  assert answers[2] == [[0, 'Open the file.', 'Datei öffnen.']]


def test_faults_are_one_line(answers):
  assert answers[0].startswith("DependencyError: Module 'no_such_module', to register the seqio task")
  assert answers[3] == "InputError: seqio task 'tiny' has no split 'validation'; it has test."
  assert answers[4].startswith("InputError: No seqio task or mixture 'other' is registered")


def test_the_papers_tasks_have_t5s_prefixes(answers):
  assert answers[5] == [[0, 'translate English to German: Open the file.', 'Datei öffnen.']]
  assert answers[6] == [[0, 'summarize: Rain fell.', 'It rains .\nIt pours .']]
  assert answers[7].startswith("InputError: seqio task 'specdec_cnn_dm' needs a field 'article'")


def test_the_papers_tasks_read_tfds(answers):
  assert answers[8] == [[[0, 'translate English to German: a cat', 'eine Katze']],
                        [[0, 'summarize: Rain.', 'It rains .']], [[0, '', 'hello']]]


def test_pairs_to_train_on_are_cut_and_end_in_eos(answers):
  (source, target), = answers[9]
  vocabulary = Vocabulary('embedded:ende/spiece.model')
  assert source == vocabulary.encode('translate English to German: Open the file.')[:7] + [1]
  assert target == vocabulary.encode('Datei öffnen.') + [1]


def test_the_papers_tasks_evaluate(answers):
  assert answers[10][0] == {'bleu': pytest.approx(100)}
  assert answers[10][1] == {'rouge1': 100, 'rouge2': 100, 'rougeLsum': 100}


def test_what_tfds_must_fetch_is_said_before_with_what_to_do_instead(answers):
  said, error = answers[11]
  assert len(said) == 1 and "'wmt14_translate/de-en/1.0.0' is not in " in said[0]
  assert 'training archives' in said[0] and "task_examples.files = {'test': FILE}" in said[0]
  assert error.startswith("InputError: TFDS could not prepare 'wmt14_translate/de-en/1.0.0' (no network at all); ")
  assert "task_examples.files = {'test': FILE}" in error and '\n' not in error


def test_a_split_that_the_data_set_does_not_have_is_named(answers):
  assert answers[12] == ("InputError: seqio task 'specdec_wmt14_ende': Unknown split 'test'. Should be one of "
                         "['validation'].")


def test_tensorflow_starts_without_noise(answers):
  lines = answers[13].splitlines()
  assert lines[0] == 'specdec_jax: reading a seqio task: TensorFlow starts'
  assert not [line for line in lines if line.startswith(('E0000', 'I0000', 'WARNING: All log'))]
