"""The paper's data as seqio tasks; importing this module registers them (and imports TensorFlow).

  specdec_wmt14_ende   WMT14 as T5 takes it (tensor2tensor's English-German; the test set is
                       newstest2014); targets are scored by BLEU
  specdec_cnn_dm       CNN/Daily Mail; targets are scored by ROUGE
  specdec_lm1b         the One Billion Word benchmark for decoder-only models: inputs are empty

Inputs carry T5's prefixes, the vocabulary is T5's. Nothing is cut: lengths are set where a task is
read, 256 tokens for English-German and 512 for articles as in the configurations of Table 2.
"""

import functools

import seqio
import tensorflow as tf

from specdec_jax.data import metrics

VOCABULARY = 'gs://t5-data/vocabs/cc_all.32000.100extra/sentencepiece.model'


def _pair(dataset, source: str, target: str, prefix: str):
  """Records of a data set -> inputs and targets, texts."""
  return dataset.map(
      lambda record: {'inputs': tf.strings.join([prefix, record[source]]),
                      'targets': record[target]},
      num_parallel_calls=tf.data.AUTOTUNE)


def _sentences(dataset):
  return dataset.map(lambda record: {'inputs': '', 'targets': record['text']},
                     num_parallel_calls=tf.data.AUTOTUNE)


def _bleu(targets, predictions):
  return {'bleu': metrics.bleu(predictions, targets)}


def _rouge(targets, predictions):
  return {kind: metrics.rouge(kind, predictions, targets)
          for kind in ('rouge1', 'rouge2', 'rougeLsum')}


def _add(name: str, tfds_name: str, splits, preprocessor, metric_fns):
  pieces = seqio.SentencePieceVocabulary(VOCABULARY)
  seqio.TaskRegistry.add(
      name, source=seqio.TfdsDataSource(tfds_name, splits=splits),
      preprocessors=[preprocessor, seqio.preprocessors.tokenize,
                     seqio.CacheDatasetPlaceholder(), seqio.preprocessors.append_eos_after_trim],
      output_features={f: seqio.Feature(pieces, add_eos=True) for f in ('inputs', 'targets')},
      metric_fns=metric_fns)


_add('specdec_wmt14_ende', 'wmt_t2t_translate/de-en:1.0.0', ('train', 'validation', 'test'),
     functools.partial(_pair, source='en', target='de', prefix='translate English to German: '),
     [_bleu])
_add('specdec_cnn_dm', 'cnn_dailymail:3.4.0', ('train', 'validation', 'test'),
     functools.partial(_pair, source='article', target='highlights', prefix='summarize: '),
     [_rouge])
_add('specdec_lm1b', 'lm1b:1.1.0', ('train', 'test'), _sentences, [])
