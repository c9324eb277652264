"""Reports as the compare and alphas runs write them, and scripts as modules."""

import contextlib
import importlib
import pathlib
import sys

from absl import flags

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / 'scripts'
EXPERIMENT = {
    'sampling': {'temperature': 0.0, 'top_k': 0, 'top_p': 1.0}, 'gamma': 7, 'tree': None, 'verification': 'token',
    'lenience': 1.0,
    'alpha': 0.751, 'c': 0.0213, 'c_hat': 0.007, 'verify_cost': 1.12, 'predicted_speed_up': 3.21,
    'predicted_speed_up_with_verify_cost': 2.95, 'speed_up': 2.987, 'speed_up_over_t5x': None,
    'tokens_per_call': 3.6, 'expected_tokens_per_call': 3.61, 'acceptance_rate': 0.52, 'alpha_standard_error': 0.01,
    'best_gamma': 7, 'operations_factor': 2.25, 't5x': None, 'outputs': {'relation': 'identical'},
    'target_alone': {'tokens_per_second': 100.0}, 'speculative': {'tokens_per_second': 298.7}, 'groups': {},
    'timings': {'reliable': True, 'reasons': [], 'explained': {'target alone': 0.97, 'speculative': 0.92}},
    'quality': {'bleu': {'target_alone': 30.04, 'speculative': 30.04}}}
REPORT = {'target': 'T5', 'drafter': 'model', 'device': {'count': 1, 'kind': 'cpu'},
          'examples': 10, 'cut_inputs': 0, 'batch_size': 1, 'max_decode_len': 64, 'short_input_len': 32, 'texts': [],
          'experiments': [EXPERIMENT], 'chosen': [],
          'alphas': [{'drafter': 'bigram', 'sampling': EXPERIMENT['sampling'], 'lenience': 1.0,
                      'alpha': 0.2, 'standard_error': 0.01, 'tokens': 9}]}


@contextlib.contextmanager
def imported(name):
  """A script as a module. While it is there its flags stand in place of others of their names."""
  others = {flag: (flags.FLAGS[flag], flags.FLAGS[flag].allow_override) for flag in flags.FLAGS}
  for flag, _ in others.values():
    flag.allow_override = True
  sys.path.insert(0, str(SCRIPTS))
  try:
    module = importlib.import_module(name)
    flags.FLAGS.mark_as_parsed()
    yield module
  finally:
    sys.path.remove(str(SCRIPTS))
    for flag in list(flags.FLAGS.flags_by_module_dict().get(name, [])):
      delattr(flags.FLAGS, flag.name)
    for flag_name, (flag, allowed) in others.items():
      flag.allow_override = allowed
      if flag_name not in flags.FLAGS:
        flags.FLAGS[flag_name] = flag
    sys.modules.pop(name, None)
