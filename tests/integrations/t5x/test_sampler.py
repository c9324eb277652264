import functools

import gin
import jax
import pytest

pytest.importorskip('t5x.models', reason="T5X is not installed: pip install -e '.[t5x]'")

from t5x import decoding

from specdec_jax.errors import SettingError
from specdec_jax.integrations.t5x import sampler
from specdec_jax.sampling import Sampling

SAMPLE = decoding.temperature_sample


@pytest.mark.parametrize('settings, sampling', [
    ({}, Sampling(temperature=0.0, top_k=1)),
    (dict(topk=0), Sampling()), (dict(topk=0, temperature=0.5), Sampling(temperature=0.5)),
    (dict(topk=20, temperature=1e-4), Sampling(temperature=0.0, top_k=20)),
    (dict(topk=0, topp=0.9), Sampling(top_p=0.9))])
def test_settings_mean_what_they_mean_in_t5x(settings, sampling):
  bound = functools.partial(SAMPLE, **settings)
  sampler.check(bound)
  assert sampler.asked(bound, {}) == sampler.asked(SAMPLE, {**settings, 'eos_id': 1}) == sampler.Asked(
      sampling, max_decode_steps=None, rescale_log_probs=True)


def test_bindings_of_gin_count_in_their_scopes():
  configurable = gin.external_configurable(SAMPLE, 'temperature_sample_of_a_test', module='test')
  with gin.unlock_config():
    gin.parse_config('temperature_sample_of_a_test.topk = 7\nlong/temperature_sample_of_a_test.temperature = 0.3\n'
                     'long/temperature_sample_of_a_test.rescale_log_probs = False')
  sampler.check(configurable)
  assert sampler.asked(configurable, {}).sampling == Sampling(top_k=7)
  scoped = gin.config.ConfigurableReference('long/temperature_sample_of_a_test', False).scoped_configurable_fn
  sampler.check(scoped)
  found = sampler.asked(scoped, {'max_decode_steps': 9, 'max_decode_steps_hard_limit': 5})
  assert found == sampler.Asked(Sampling(top_k=7, temperature=0.3), 5, False)


def test_t5xs_function_is_as_it_was():
  before = decoding._temperature_sample_single_trial
  sampler.asked(SAMPLE, {})
  with pytest.raises(TypeError):
    sampler.asked(SAMPLE, {'no_such_setting': 1})
  assert decoding._temperature_sample_single_trial is before


def test_what_has_no_counterpart_is_refused():
  for other in (decoding.beam_search, functools.partial(decoding.beam_search, alpha=1.0), lambda **_: None):
    with pytest.raises(SettingError, match='speculation is of t5x.decoding.temperature_sample'):
      sampler.check(other)
  for settings, words in ((dict(topk=5, topp=0.5), 'at most one'), (dict(temperature=[0.1, 0.2]), 'one number'),
                          (dict(logit_callback_fn=lambda *x: x), 'logit_callback_fn')):
    with pytest.raises(SettingError, match=words):
      sampler.asked(SAMPLE, settings)
  with pytest.raises(SettingError, match='known when the program is compiled'):
    jax.jit(lambda t: sampler.asked(SAMPLE, {'temperature': t}) and t)(0.5)
