"""What T5X is told of a vocabulary: seqio's, where it has one with the same ids."""

import pytest

import specdec_jax as sd
from specdec_jax.checkpoints.t5x.writing import _vocabulary
from specdec_jax.checkpoints.writers import Export
from specdec_jax.data.tokenizers_making import of_sentencepiece

EMBEDDED = sd.Vocabulary('embedded:ende/spiece.model')


def of_huggingface(sentinels, added=()):
  made = of_sentencepiece(EMBEDDED.model_bytes, sentinels)
  made.add_tokens(list(added))
  return sd.TokenizersVocabulary.of(made, 'x', encoder=True, spiece=EMBEDDED.model_bytes)


@pytest.mark.parametrize('vocabulary, words', [
    (EMBEDDED.with_sentinels(100), 'extra_ids = 100'), (of_huggingface(100), 'extra_ids = 100'),
    (of_huggingface(0), 'extra_ids = 0'), (sd.ByteVocabulary(), 'seqio.ByteVocabulary.extra_ids = 125'),
    (of_huggingface(3, ['<new>']), None), (sd.ByteVocabulary(3, {'<new>': 262}), None), (None, None)])
def test_the_vocabulary_in_gin(vocabulary, words):
  found = _vocabulary(Export(config=None, vocabulary=vocabulary, leaves={}, read=None, place='/models/m', step=0))
  assert found is None if words is None else words in found
  if words and 'Byte' not in words:
    assert "sentencepiece_model_file = '/models/m/spiece.model'" in found
