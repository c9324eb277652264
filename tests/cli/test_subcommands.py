"""Subcommands are another spelling of gin flags: what they set, for every run."""

import pytest
from absl import flags
from absl.testing import flagsaver

import specdec_jax.cli.configurables  # noqa: F401 (registers what gin files name)
from specdec_jax.cli import gin_command, gin_config, subcommands
from specdec_jax.errors import ConfigError, SettingError
from specdec_jax.runs.registry import RUNS

PAIR = ['--target=T', '--draft=D', '--output_dir=O']
FLAGS = {  # of each run's subcommand: enough for a configuration
    'decode': [*PAIR, '--inputs=F'], 'precompile': [*PAIR, '--inputs=F'], 'compare': [*PAIR, '--inputs=F'],
    'check': [*PAIR, '--inputs=F'], 'complete': [*PAIR, '--prompt=P'], 'alphas': [*PAIR, '--inputs=F'],
    'beam': [*PAIR, '--inputs=F'], 'figures': [*PAIR, '--inputs=F'], 'throughput': [*PAIR, '--inputs=F'],
    'score': ['--target=T', '--inputs=F', '--targets=a', '--label=b', '--output_dir=O'],
    'beyond': [*PAIR, '--inputs=F'], 'drafters': [*PAIR, '--inputs=F'],
    'train_heads': ['--gin_file=configs/demo/train_heads.gin', '--output_dir=O'],
    'plan': ['--output_dir=O'], 'plan_trees': ['--output_dir=O'],
    'train': ['--gin_file=configs/demo/train_draft.gin', '--output_dir=O'],
    'fit_ngram': ['--vocabulary=V', '--inputs=F', '--output_dir=O'], 'fit_vocabulary': ['--inputs=F', '--output_dir=O']}


def parsed(name, *arguments):
  """Every binding that `specdec_jax NAME ARGUMENTS` has, as `python -m specdec_jax.main` reads them."""
  translated = subcommands.translate(subcommands.find(name), arguments)
  with flagsaver.flagsaver():
    rest = flags.FLAGS(gin_command.rewrite_gin_flags(['main', *translated]))
    assert rest == ['main']
    values = {n: flags.FLAGS[n].value for n in ('gin_file', 'gin_bindings', 'gin_search_paths', 'output_dir')}
  bindings = [*values['gin_bindings'], *([f"OUTPUT_DIR = '{values['output_dir']}'"] if values['output_dir'] else [])]
  gin_config.parse(values['gin_file'], bindings, values['gin_search_paths'])
  return gin_config.flat()


@pytest.mark.parametrize('name', RUNS)
def test_every_run_has_a_subcommand(name):
  found = parsed(name, *FLAGS[name])
  assert found['main.run'] == f'@{name}' and found['OUTPUT_DIR'] == "'O'"
  assert subcommands.find(name.replace('_', '-')) is RUNS[name] and RUNS[name].function.__name__ == name
  assert RUNS[name].summary.endswith('.') and '\n' not in RUNS[name].summary


def test_a_subcommand_is_the_same_configuration():
  gin_config.parse(
      ['gin/runs/decode.gin', 'gin/inputs/file.gin', 'gin/drafters/model.gin', 'gin/sampling/greedy.gin'],
      ["TARGET = 'T'", "DRAFT = 'D'", "INPUTS = 'F'", "OUTPUT_DIR = 'O'", 'decode.gamma = 4', "decode.prefix = '4'",
       'decode.buckets = (16, 32)', 'read_examples.limit = 3', 'Sampling.temperature = 0.5',
       "load_model.dtype = 'bfloat16'"])
  wanted = gin_config.flat()
  assert parsed('decode', '--target=T', '--draft', 'D', '--inputs=F', '--output_dir=O', '--gamma=4', '--prefix=4',
                '--gin.decode.buckets=(16, 32)', '--limit=3', '--temperature=0.5', '--dtype=bfloat16') == wanted


@pytest.mark.parametrize('name, more, setting, value', [
    ('decode', ['--gamma', '4'], 'decode.gamma', '4'),
    ('decode', ['--gamma=auto'], 'decode.gamma', "'auto'"),
    ('decode', ['--tree=15'], 'decode.tree', '15'),
    ('compare', ['--gammas=4,auto'], 'compare.gammas', "(4, 'auto')"),
    ('decode', ["--prefix=it's: "], 'decode.prefix', '"it\'s: "'),
    ('precompile', ['--gamma=3'], 'decode.gamma', '3'),
    ('compare', ['--gammas=4,7'], 'compare.gammas', '(4, 7)'),
    ('compare', ['--gammas=(4,)'], 'compare.gammas', '(4,)'),
    ('compare', ['--metrics=bleu'], 'compare.metrics', "('bleu',)"),
    ('compare', ['--t5x'], 'compare.t5x', 'True'),
    ('compare', ['--tie_margin=None'], 'compare.tie_margin', 'None'),
    ('compare', [], 'SAMPLINGS', '(@greedy/Sampling(), @random/Sampling())'),
    ('compare', ['--temperature=0,0.5'], 't1/Sampling.temperature', '0.5'),
    ('compare', ['--temperature=0,0.5', '--top_k=40'], 'Sampling.top_k', '40'),
    ('alphas', [], 'DRAFTERS', "{'draft': %DRAFTER}"),
    ('plan', ['--target=t5_1_1_xl'], 'plan.target', "'t5_1_1_xl'"),
    ('plan', ['--temperature=1'], 'plan.sampling', '@Sampling()'),
    ('plan', ['--draft=None'], 'plan.draft', 'None'),
    ('train', ['--steps=10'], 'STEPS', '10'),
    ('fit_ngram', ['--order=1'], 'fit_ngram.order', '1'),
    ('decode', ['--gin.main.compilation_cache_dir=None'], 'main.compilation_cache_dir', 'None'),
])
def test_flags_become_settings(name, more, setting, value):
  assert parsed(name, *FLAGS[name], *more)[setting] == value


@pytest.mark.parametrize('more, drafter', [
    ([], 'None'), (['--draft=D'], '@ModelDrafter()'), (['--draft=D', '--drafter=bigram'], '@load_ngram()'),
    (['--drafter=lookup'], '@LookupDrafter()'), (['--drafter', 'random'], '@RandomDrafter()')])
def test_a_draft_or_a_drafter_makes_it_speculative(more, drafter):
  assert parsed('decode', '--target=T', '--inputs=F', '--output_dir=O', *more)['DRAFTER'] == drafter


def test_a_task_takes_the_place_of_a_file():
  found = parsed('decode', '--target=T', '--task=x', '--task_module=m', '--split=validation', '--limit=3',
                 '--output_dir=O')
  assert found['MIXTURE_OR_TASK_NAME'] == "'x'" and found['MIXTURE_OR_TASK_MODULE'] == "'m'"
  assert found['SPLIT'] == "'validation'" and found['task_examples.limit'] == '3'


def test_a_configuration_takes_the_place_of_the_blocks(tmp_path):
  (tmp_path / 'own.gin').write_text("include 'configs/demo/decode.gin'\ndecode.gamma = 9\nOUTPUT_DIR = 'mine'\n")
  found = parsed('decode', '--gin_search_paths', str(tmp_path), '--gin_file=own.gin', '--target=T', '--gamma=2')
  assert found['TARGET'] == "'T'" and found['DRAFT'] == "'embedded:ende/draft'"
  assert found['decode.gamma'] == '2' and found['OUTPUT_DIR'] == "'mine'"


@pytest.mark.parametrize('name, arguments, words', [
    ('decode', ['--num_decodes=3'], r"no setting --num_decodes; .*\. T5X's num_decodes is decode\.num_samples here"),
    ('decode', ['--gama=3'], r'decode has no setting --gama; it has .*--gamma, .*--gin\.NAME=VALUE'),
    ('decode', ['target'], "unexpected argument 'target'; settings are given as --NAME=VALUE"),
    ('decode', ['--'], "unexpected argument '--'"),
    ('decode', ['--gamma=3', '--gamma=4'], '--gamma is given twice'),
    ('decode', ['--drafter=mode'], "--drafter is 'mode'; it must be one of model, heads, bigram"),
    ('decode', ['--gin_file=no.gin'], "no gin file 'no.gin'"),
    ('compare', ['--output_dir=O'], None),
])
def test_mistakes_are_one_line(name, arguments, words):
  with pytest.raises((SettingError, ConfigError), match=words or 'TARGET is required.*DRAFT is required') as caught:
    parsed(name, *arguments)
  assert '\n' not in str(caught.value)


def test_a_wrong_value_is_named_by_its_setting():
  with pytest.raises(SettingError, match=r"Sampling\.temperature is 'warm'"):
    parsed('decode', *FLAGS['decode'], '--temperature=warm')
