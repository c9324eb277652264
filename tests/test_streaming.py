"""`sd.stream`: the same decode as a whole one, events that hold its text, and how it is shown."""

import io
import sys
import types

import every_drafter
import jax
import numpy as np
import pytest
import sentencepiece
import tiny_lm
import toy
from hypothesis import given, settings, strategies as st
from tiny_pair import SENTENCES

import specdec_jax as sd
from specdec_jax import streaming
from specdec_jax.data.byte_vocabulary import ByteVocabulary
from specdec_jax.errors import SettingError
from specdec_jax.reports import live, trace

TOY = toy.random_toy(0, eos=-1.0)
DRAFTERS = every_drafter.make(3)
TREE = sd.Tree((-1, -1, 0, 0, 2))
WARM = sd.Sampling(temperature=0.8)


def assert_same(ours, theirs):
  """Every field of two results; scores to their last bits."""
  np.testing.assert_allclose(ours.scores, theirs.scores, rtol=0, atol=1e-5)
  for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(ours.replace(scores=None)),
                          jax.tree.leaves(theirs.replace(scores=None)), strict=True):
    np.testing.assert_array_equal(a, b, err_msg=jax.tree_util.keystr(path))


def streamed(target, drafter, tokens, **options):
  """The events, after comparing them and the result with a whole decode."""
  found = sd.stream(target, drafter, tokens, **options)
  assert found.result is None
  events = list(found)
  assert_same(found.result, sd.speculative_decode(target, drafter, tokens, trace=True, **options))
  assert [e.number for e in events] == list(range(1, len(events) + 1))
  assert [e.done for e in events] == [False] * (len(events) - 1) + [True]
  written = [token for e in events for token in e.emitted]
  np.testing.assert_array_equal(written, found.result.tokens[0, :found.result.lengths[0]])
  assert events[-1].status == found.result.status[0]
  np.testing.assert_array_equal([e.stats.emitted[0] for e in events], np.cumsum([len(e.emitted) for e in events]))
  return events


@pytest.mark.long
@pytest.mark.parametrize('name, shape', [*((name, {'gamma': 3}) for name in DRAFTERS), ('model', {'tree': TREE})],
                         ids=[*DRAFTERS, 'model with a tree'])
def test_every_drafter(name, shape):
  drafter = DRAFTERS[name] if 'tree' in shape else every_drafter.switched(DRAFTERS, name)
  numbers = {len(streamed(TOY, drafter, toy.sources(1), ids=[i], seed=5, max_decode_len=9, sampling=WARM, **shape))
             for i in range(6)}
  assert len(numbers) > 1


OF_PAIR = dict(gamma=3, max_decode_len=12, seed=2)  # one program for the tests of texts


def test_an_encoder_decoder(target, draft, capsys):
  sources = target.encode(SENTENCES[5])
  events = streamed(target, draft, sources, **OF_PAIR)
  found = sd.stream(target, draft, SENTENCES[5], **OF_PAIR)
  assert found.given == '' and live.display() is live.Terminal
  found.show()
  text, = target.decode(found.result.tokens)
  assert ''.join(e.text for e in events) == text and capsys.readouterr().out == text + '\n'
  begun = sd.stream(target, draft, sources[0], target_prefix=target.encode('the file')[:, :-1], **OF_PAIR)
  assert begun.given == 'the file'


@pytest.mark.long
def test_a_decoder_only_model_with_a_tree(tmp_path):
  vocabulary = tiny_lm.vocabulary(tmp_path)
  target, draft = tiny_lm.random_lm(0, vocabulary), tiny_lm.random_lm(1, vocabulary)
  tokens, lengths = target.prompts('the file')
  options = dict(tree=TREE, max_decode_len=12, sampling=sd.Sampling(temperature=0.0))
  events = streamed(target, draft, np.pad(tokens, ((0, 0), (0, 2))), lengths=lengths, **options)
  found = sd.stream(target, draft, 'the file', **options)
  assert found.given == 'the file'
  whole = [*tokens[0, len(vocabulary.start):], *(t for e in events for t in e.emitted if t != vocabulary.eos_id)]
  assert found.given + ''.join(e.text for e in events) == vocabulary.decode(whole)


def test_without_a_draft_an_event_is_a_token():
  found = sd.stream(TOY, None, toy.sources(1)[0], max_decode_len=9, seed=1)
  events = list(found)
  whole = sd.autoregressive_decode(TOY, toy.sources(1), max_decode_len=9, seed=1)
  assert_same(found.result.replace(trace=None), whole)
  assert [e.emitted for e in events] == [(t,) for t in whole.tokens[0, :whole.lengths[0]]]
  assert not any(e.accepted or e.rejected for e in events)


@pytest.mark.parametrize('arguments, match', [
    (dict(text=toy.sources(2)), 'stream decodes one text, and 2 are given'),
    (dict(text=toy.sources(1), drafter=None, gamma=2), 'there is no drafter'),
    (dict(text=toy.sources(1), drafter=None, lenience=0.5), 'there is no drafter'),
    (dict(text=toy.sources(1), gamma=0), 'gamma'),
    (dict(text='a text'), 'no vocabulary')])
def test_bad_arguments_are_refused_before_anything_runs(arguments, match):
  with pytest.raises(SettingError, match=match):
    sd.stream(TOY, **{'drafter': DRAFTERS['random'], **arguments})


def of_bytes(folder):
  """SentencePiece with a piece for every byte, after too few characters."""
  model = io.BytesIO()
  sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=iter(SENTENCES * 4), model_writer=model, vocab_size=330, pad_id=0, eos_id=1, unk_id=2,
      bos_id=-1, byte_fallback=True, hard_vocab_limit=False, minloglevel=2)
  (folder / 'bytes.model').write_bytes(model.getvalue())
  return sd.Vocabulary(folder / 'bytes.model')


@pytest.fixture(scope='module')
def vocabularies(tmp_path_factory):
  folder = tmp_path_factory.mktemp('vocabularies')
  return {'byt5': ByteVocabulary(), 'bytes': of_bytes(folder), 'bpe': tiny_lm.vocabulary(folder),
          'wordpiece': tiny_lm.vocabulary(folder, 'wordpiece', 80)}


def growing(vocabulary, given=()):
  config = types.SimpleNamespace(decoder_only=False, pad_id=0)
  return streaming._Growing(types.SimpleNamespace(vocabulary=vocabulary, config=config, eos_ids=(1,)), given)


@pytest.mark.parametrize('name', ['byt5', 'bytes', 'bpe', 'wordpiece'])
@settings(max_examples=60)
@given(data=st.data())
def test_pieces_join_to_the_text(name, vocabularies, data):
  """Any tokens, whole characters or not, in any blocks."""
  vocabulary = vocabularies[name]
  tokens = data.draw(st.lists(st.integers(2, vocabulary.size - 1), min_size=1, max_size=30))
  grown, texts = growing(vocabulary), []
  while tokens:
    block, tokens = tokens[:data.draw(st.integers(1, 4))], tokens[4:]
    texts.append(grown.add(block, whole=not tokens))
  assert ''.join(texts) == grown.shown == vocabulary.decode(grown._tokens)


@pytest.mark.parametrize('name', ['byt5', 'bytes', 'bpe'])
def test_a_character_waits_for_its_last_byte(name, vocabularies):
  vocabulary = vocabularies[name]
  tokens = vocabulary.encode('the €, a')
  grown = growing(vocabulary)
  texts = [grown.add([t]) for t in tokens]
  assert not any('\ufffd' in text for text in texts) and '' in texts
  assert ''.join([*texts, grown.add([], whole=True)]) == 'the €, a'


def events_by_hand():
  stats = types.SimpleNamespace(target_calls=[2], tokens_per_call=2.0, accepted=[3], drafted=[4])
  common = dict(status=sd.Status.EOS, stats=stats)
  yield streaming.Event(accepted=(2, 3), rejected=(4,), next_token=5, number=1, accepted_text='Das <b>',
                        rejected_texts=(' Haus',), next_text=' Boot', **common)
  yield streaming.Event(accepted=(6,), rejected=(), next_token=7, number=2, accepted_text=' ist', rejected_texts=(),
                        next_text=' da', **common)


def test_in_a_terminal(capsys):
  for colour in (False, True):
    shown = live.Terminal('> ', colour)
    for event in events_by_hand():
      shown.add(event)
    shown.close()
  plain, coloured = capsys.readouterr().out.splitlines()
  assert plain == '> Das <b> Boot ist da'
  assert coloured == ('> \x1b[32mDas <b>\x1b[0m \x1b[31;9mHaus\x1b[0m \x1b[94mBoot\x1b[0m \x1b[32mist\x1b[0m '
                      '\x1b[94mda\x1b[0m')


def test_in_a_notebook(monkeypatch):
  outputs = []
  handle = types.SimpleNamespace(update=outputs.append)
  page = types.SimpleNamespace(HTML=str, display=lambda html, display_id: (outputs.append(html), handle)[1])
  monkeypatch.setitem(sys.modules, 'IPython.display', page)
  monkeypatch.setitem(sys.modules, 'IPython', types.SimpleNamespace(
      display=page, get_ipython=lambda: types.SimpleNamespace(kernel=None)))
  assert live.display() is live.Notebook
  shown = live.Notebook('> ')
  for event in events_by_hand():
    shown.add(event)
  shown.close()
  assert len(outputs) == 3 and 'waiting' in outputs[0] and '&gt; ' in outputs[0]
  assert f'<span class="accepted" style="color:{trace.COLOURS["accepted"]}">Das &lt;b&gt;</span>' in outputs[2]
  assert 'line-through">Haus</span>' in outputs[2]
  assert '2 target calls, 2.00 tokens a call, 3 of 4 draft tokens accepted' in outputs[2]
