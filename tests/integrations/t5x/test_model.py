import chisquare
import jax
import numpy as np
import pytest
import tiny

pytest.importorskip('t5x.models', reason="T5X is not installed: pip install -e '.[t5x]'")

from specdec_jax.errors import CheckpointError, SettingError
from specdec_jax.tree import Tree

TREE = Tree(parents=(-1, -1, 0, 0, 1, 2))


def predict(model, weights, batch, **options):
  """The jitted prediction of a speculative model, the draft an argument."""
  call = jax.jit(lambda params, draft, batch: model.predict_batch_with_aux(
      params, batch, flax_mutables={'draft': draft}, **options))
  return jax.device_get(call(weights[0].params, weights[1].params, batch))


def one_by_one(model, weights, batch, **options):
  """T5X's own."""
  return jax.device_get(jax.jit(lambda params, batch: model.predict_batch_with_aux(params, batch, **options))(
      weights[0].params, batch))


@pytest.mark.parametrize('options', [{'gamma': 3}, {'tree': TREE}], ids=['chain', 'tree'])
def test_greedy_texts_are_t5xs(speculative, plain, weights, batch, options):
  """topk = 1 is the default."""
  tokens, aux = predict(speculative(options), weights, batch)
  wanted, aux_wanted = one_by_one(plain(), weights, batch)
  np.testing.assert_array_equal(tokens, wanted)
  np.testing.assert_array_equal(aux['scores'], aux_wanted['scores'])  # all 0: the best token has probability 1
  assert (tokens == 1).any() and not (tokens == 1).any(1).all()  # rows that end and rows that do not


def test_a_temperature_of_0_is_greedy_too_and_scores_may_be_the_models_own(speculative, plain, weights, batch):
  settings = dict(temperature=0.0, topk=0, rescale_log_probs=False)
  tokens, aux = predict(speculative(**settings), weights, batch)
  wanted, aux_wanted = one_by_one(plain(**settings), weights, batch)
  np.testing.assert_array_equal(tokens, wanted)
  np.testing.assert_allclose(aux['scores'], aux_wanted['scores'], atol=1e-4)
  assert (aux['scores'] < -0.1).all()


def test_max_decode_steps(speculative, plain, weights, batch):
  tokens, _ = predict(speculative(max_decode_steps=4), weights, batch)
  np.testing.assert_array_equal(tokens, one_by_one(plain(max_decode_steps=4), weights, batch)[0])
  assert tokens.shape == (5, 9) and not tokens[:, 4:].any() and tokens[:, 3].any()


def test_several_decodes_are_scored_and_sorted(speculative, weights, batch):
  """The scores are those of the distributions that were sampled from, computed here from the logits alone."""
  model = speculative(temperature=0.7, topk=4)
  decodes, aux = predict(model, weights, batch, num_decodes=3, return_all_decodes=True, rng=jax.random.PRNGKey(3))
  assert decodes.shape == (5, 3, 9) and aux['scores'].shape == (5, 3)
  assert (np.diff(aux['scores'], axis=1) >= 0).all() and len({row.tobytes() for row in decodes[0]}) > 1
  encoder = np.repeat(batch['encoder_input_tokens'], 3, axis=0)
  texts = decodes.reshape(15, 9)
  fed = np.pad(texts[:, :-1], ((0, 0), (1, 0)))
  logits = np.asarray(weights[0].logits(encoder, fed), np.float64) / 0.7
  kept = logits >= np.sort(logits, -1)[..., -4:-3]
  logits = np.where(kept, logits, -np.inf)
  logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
  chosen = np.take_along_axis(logs, texts[..., None], -1)[..., 0]
  emitted = np.cumsum(np.pad(texts == 1, ((0, 0), (1, 0)))[:, :-1], axis=1) == 0
  np.testing.assert_allclose(aux['scores'].reshape(15), np.where(emitted, chosen, 0).sum(1), atol=1e-4)
  best, best_aux = predict(model, weights, batch, num_decodes=3, rng=jax.random.PRNGKey(3))
  np.testing.assert_array_equal(best, decodes[:, -1])
  np.testing.assert_array_equal(best_aux['scores'], aux['scores'][:, -1])


def test_defaults_of_the_decode_are_the_models(weights, module, batch):
  import seqio
  from t5x import decoding, models

  from specdec_jax.integrations import t5x as integration
  vocabulary = seqio.PassThroughVocabulary(tiny.ROWS, eos_id=1)
  target = models.EncoderDecoderModel(
      module(weights[0]), vocabulary, vocabulary, None, decode_fn=decoding.temperature_sample,
      default_decoder_params=models.DecoderParams(return_all_decodes=True, num_decodes=2))
  model = integration.SpeculativeModel(target, integration.Draft('nowhere', module=module(weights[1])), gamma=2)
  assert predict(model, weights, batch)[0].shape == (5, 2, 9)


def test_texts_follow_the_targets_distribution(speculative, weights, batch):
  """The first two tokens of many decodes of one input; other keys, other texts."""
  one = {'encoder_input_tokens': batch['encoder_input_tokens'][:1], 'decoder_input_tokens': np.zeros((1, 2), np.int32)}
  model, count = speculative(temperature=1.3, topk=0), 4000
  texts = [predict(model, weights, one, num_decodes=count, return_all_decodes=True,
                   decoder_params={'decode_rng': jax.random.PRNGKey(seed)})[0][0] for seed in (0, 1)]
  assert (texts[0] != texts[1]).any()
  def probabilities(prefixes):
    logits = np.asarray(weights[0].logits(np.repeat(one['encoder_input_tokens'], len(prefixes), 0), prefixes))[:, -1]
    p = np.exp((logits - logits.max(-1, keepdims=True)).astype(np.float64) / 1.3)
    return p / p.sum(-1, keepdims=True)
  first = probabilities(np.zeros((1, 1), np.int32))[0]
  second = probabilities(np.array([[0, a] for a in range(tiny.ROWS)], np.int32))
  exact = {(a, b): first[a] * second[a, b] for a in range(tiny.ROWS) for b in range(tiny.ROWS) if a != 1}
  exact[(1,)] = first[1]
  rows = np.concatenate(texts)
  assert chisquare.texts(rows, np.where(rows[:, 0] == 1, 1, 2), exact) > chisquare.ACCEPT


@pytest.fixture(scope='module')
def prompts(batch):
  """Of 0 to 8 tokens, one with its EOS; behind 8 there is room for one more."""
  rows = [[], [6, 7], [5, 3, 9, 1], [4] * 8, [8]]
  tokens = np.array([[0, *row, *[0] * (8 - len(row))] for row in rows], np.int32)
  return {**batch, 'decoder_input_tokens': tokens}


@pytest.mark.parametrize('options', [{'gamma': 3}, {'tree': TREE}], ids=['chain', 'tree'])
@pytest.mark.parametrize('settings', [{'rescale_log_probs': False}, {'max_decode_steps': 3}])
def test_prompts_are_gone_on_from_as_in_t5x(speculative, plain, weights, prompts, options, settings):
  tokens, aux = predict(speculative(options, **settings), weights, prompts, prompt_with_targets=True)
  wanted, aux_wanted = one_by_one(plain(**settings), weights, prompts, prompt_with_targets=True)
  np.testing.assert_array_equal(tokens, wanted)
  np.testing.assert_allclose(aux['scores'], aux_wanted['scores'], atol=1e-4)
  assert tokens[1, :2].tolist() == [6, 7] and tokens[3, :8].tolist() == [4] * 8 and tokens[3, 8]


def test_samples_after_prompts(speculative, weights, prompts):
  decodes, aux = predict(speculative(temperature=0.7, topk=0), weights, prompts, prompt_with_targets=True,
                         num_decodes=3, return_all_decodes=True)
  own = predict(speculative(temperature=0.7, topk=0, rescale_log_probs=False), weights, prompts,
                prompt_with_targets=True, num_decodes=3, return_all_decodes=True)
  assert decodes.shape == (5, 3, 9) and (np.diff(aux['scores'], axis=1) >= 0).all()
  assert (decodes[2, :, :3] == [5, 3, 9]).all() and len({row.tobytes() for row in decodes[2]}) > 1
  assert {row.tobytes() for row in decodes[4]} == {row.tobytes() for row in own[0][4]}
  assert not np.allclose(own[1]['scores'], aux['scores'], atol=1e-3)


def test_states_without_a_draft_are_decoded_by_t5x(speculative, plain, weights, batch):
  np.testing.assert_array_equal(one_by_one(speculative(), weights, batch)[0], one_by_one(plain(), weights, batch)[0])


def test_what_is_not_decoding_is_the_targets(speculative, plain, weights, batch):
  targets = np.where(np.arange(9) < 4, 5, 0).astype(np.int32)[None].repeat(5, 0)
  scored = {**batch, 'decoder_input_tokens': np.pad(targets[:, :-1], ((0, 0), (1, 0))),
            'decoder_target_tokens': targets, 'decoder_loss_weights': (targets > 0).astype(np.float32)}
  for name in ('score_batch', 'eval_fn'):
    ours, theirs = (getattr(model, name)(weights[0].params, scored) for model in (speculative(), plain()))
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
  shapes = {name: value.shape for name, value in batch.items()}
  made = jax.eval_shape(lambda: speculative().get_initial_variables(jax.random.PRNGKey(0), shapes))
  assert set(made) == {'params', 'params_axes'}  # no draft in what is trained and saved


def test_other_networks_are_refused(speculative, weights, batch):
  with pytest.raises(CheckpointError, match='The draft.s train state'):
    predict(speculative(), (weights[0], weights[0]), batch)
  with pytest.raises(SettingError, match='gamma is 0'):
    speculative({'gamma': 0})
  with pytest.raises(SettingError, match='one of them'):
    predict(speculative(), weights, batch, rng=jax.random.PRNGKey(0),
            decoder_params={'decode_rng': jax.random.PRNGKey(0)})
