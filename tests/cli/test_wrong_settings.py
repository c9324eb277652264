"""Some hundreds of wrong settings: each is refused in one line that names the setting, before anything is loaded."""

import os

import gin
import pytest
import tiny

import specdec_jax as sd
import specdec_jax.cli.configurables
from specdec_jax import arguments
from specdec_jax.cli import bindings, gin_config
from specdec_jax.cli.ends import one_line
from specdec_jax.data.examples import Example
from specdec_jax.errors import UserError
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.parallel.hosts import Hosts
from specdec_jax.runs.decode import decode
from specdec_jax.training import optimizer

# Values in gin's words, by what the setting takes.
NO_NUMBER = ["'4'", "''", '[4]', '(4,)', '{}', '{1: 4}', 'True', '@Sampling', '@Sampling()']
WHOLE_1 = [*NO_NUMBER, 'None', '0', '-1', '1.5', '1e400', '-1e400']
DRAFTED, LENGTH = [*WHOLE_1, '1025', '1000000'], [*WHOLE_1, str(2 ** 20 + 1), '1000000000000']
WHOLE_2 = [*WHOLE_1, '1']
WHOLE_0 = [*NO_NUMBER, 'None', '-1', '0.5', '1e400']
PROBABILITY = [*NO_NUMBER, 'None', '-0.1', '1.1', '1e400']
POSITIVE = [*NO_NUMBER, 'None', '0', '-1', '1e400']
NOT_NEGATIVE = [*NO_NUMBER, 'None', '-1', '1e400']
SEED = [*WHOLE_0, str(2 ** 32)]
TEXT = ['5', 'None', "['x']", 'True', '{}', '@Sampling()']
CHOICE = [*TEXT, "'other'", "''"]
PATH = ['5', 'None', "['x']", 'True', "''", '@Sampling()', "'https://x/y'"]
FLAG = ['1', '0', "'True'", 'None', '[]']
WHOLES = ['5', "'5'", 'None', '{}', "('5',)", '(0,)', '(1.5,)', '(None,)', '(True,)', '((4,),)', '@Sampling()']
SOME_WHOLES = [*WHOLES, '()']
OBJECT = ['5', "'x'", 'True', '[]', '{}', '@Sampling']
no_sampling = lambda values: [value for value in values if value != '@Sampling()']  # it would need itself
or_none = lambda values: [value for value in values if value != 'None']

INPUTS = {'batch_size': WHOLE_1, 'max_input_len': WHOLE_2, 'long_inputs': CHOICE, 'prefix': TEXT, 'buckets': WHOLES,
          'max_decode_len': LENGTH}
METHOD = {'gamma': or_none(DRAFTED), 'tree': or_none(DRAFTED), 'verification': or_none(CHOICE),
          'lenience': or_none(PROBABILITY), 'seed': SEED,
          'logits_processors': ['5', "'x'", 'None', '(5,)', "('x',)", '{}'], 'drafter': OBJECT,
          'sampling': [*OBJECT, 'None']}
TIMED = {'repeats': WHOLE_1, 'gammas': [*SOME_WHOLES, '(4, 1025)'], 'tie_margin': or_none(NOT_NEGATIVE)}
SAMPLINGS = ['5', 'None', '()', '(5,)', "('x',)", '@Sampling()', '(@Sampling,)']
LENIENCES = ['5', 'None', '()', "('x',)", '(2,)', '(-0.1,)', '(None,)']
FILE, MODEL = 'gin/inputs/file.gin', 'gin/drafters/model.gin'
GREEDY, BOTH = 'gin/sampling/greedy.gin', 'gin/sampling/greedy_and_temperature_1.gin'
BEST = ['decode.tree = @best_tree()', 'best_tree.acceptance_by_rank = (0.7,)']
TRAIN = 'configs/demo/train_draft.gin'

# Gin files of a run, then its settings with wrong values of each.
OF_RUNS = {
    'decode': (['gin/runs/decode.gin', FILE, MODEL, GREEDY], {
        **INPUTS, **METHOD, 'target': [*OBJECT, 'None'], 'examples': ['5', "'x'", 'None', '{}'], 'compile_only': FLAG}),
    'compare': (['gin/runs/compare.gin', FILE, MODEL, BOTH], {
        **INPUTS, **TIMED, 'shown_examples': WHOLE_0, 'trees': [values for values in WHOLES if values != '()'],
        'verifications': ['5', "'block'", 'None', '()', "('x',)", '(5,)'], 'samplings': SAMPLINGS,
        'leniences': LENIENCES, 't5x': FLAG, 'seed': SEED,
        'metrics': ['5', "'bleu'", "('blue',)", '(5,)', 'None'], 'short_input_len': WHOLE_0, 'alpha_tokens': WHOLE_1,
        'drafter': [*OBJECT, 'None']}),
    'alphas': (['gin/runs/alphas.gin', FILE, BOTH], {
        **INPUTS, 'samplings': SAMPLINGS, 'leniences': LENIENCES, 'num_tokens': WHOLE_1, 'seed': SEED,
        'drafters': ['5', "'x'", 'None', '{}', '()', "{'a': 5}", "{1: @RandomDrafter()}", "{'a': @RandomDrafter}"]}),
    'beam': (['gin/runs/beam.gin', FILE, MODEL], {
        **INPUTS, **TIMED, 'shown_examples': WHOLE_0, 'num_beams': WHOLE_1, 'alpha': NOT_NEGATIVE,
        'draft_beams': SOME_WHOLES}),
    'beyond': (['gin/runs/beyond.gin', FILE, MODEL, BOTH], {
        **INPUTS, **TIMED, 'samplings': SAMPLINGS,
        'nodes': SOME_WHOLES, 'max_depth': WHOLE_1, 'candidates': WHOLE_1, 'auto': FLAG, 'seed': SEED,
        'formats': ['5', "'png'", "('pdf',)", '(5,)', 'None'], 'drafter': [*OBJECT, 'None']}),
    'check': (['gin/runs/check.gin', FILE], {**INPUTS, 'gamma': WHOLE_1, 'tree': or_none(WHOLE_1), 'repeats': WHOLE_1,
                                                    'draft': OBJECT}),
    'complete': (['gin/runs/complete.gin', MODEL, GREEDY], {
        **{name: values for name, values in INPUTS.items() if name != 'batch_size'}, **METHOD, 'prompt': TEXT,
        'stream': FLAG}),
    'throughput': (['gin/runs/throughput.gin', FILE, MODEL, GREEDY], {
        **{name: values for name, values in INPUTS.items() if name != 'batch_size'}, **METHOD, 'repeats': WHOLE_1,
        'batch_sizes': SOME_WHOLES, 'hand_backs': WHOLES}),
    'figures': (['gin/runs/figures.gin', FILE, MODEL, GREEDY], {
        **INPUTS, 'gammas': SOME_WHOLES, 'tree': or_none(WHOLE_1), 'reports': ['5', "'x'", 'None', '(5,)'],
        'example': WHOLE_0, 'shown_examples': WHOLE_0, 'seed': SEED,
        'formats': ['5', "'png'", '()', "('pdf',)", '(5,)', 'None']}),
    'plan': (['gin/runs/plan.gin'], {
        'target': ['5', 'None', '[]', 'True'], 'draft': ['5', '[]', 'True'], 'chip': CHOICE,
        'gamma': or_none(WHOLE_1), 'nodes': or_none(WHOLE_1), 'tree': ["'x'", '0', '(-1,)', '0.5'],
        'acceptance_by_rank': ['0.5', "'x'", '()', '(1.5,)', "('x',)"],
        'batch': WHOLE_1, 'input_length': WHOLE_1, 'max_decode_len': WHOLE_1, 'alpha': or_none(PROBABILITY),
        'dtype': CHOICE, 'layer_seconds': NOT_NEGATIVE, 'collective_seconds': NOT_NEGATIVE, 'data': WHOLE_1,
        'split_draft': FLAG, 'passes': FLAG, 'grid_gammas': SOME_WHOLES, 'grid_batches': SOME_WHOLES,
        'grid_chips': ["'v4'", "('v9',)", '5', '()', 'None'], 'sampling': [*OBJECT, 'None'], 'topology': ['5', '[]']}),
    'plan_trees': (['gin/runs/plan_trees.gin'], {
        'target': ['5', 'None', '[]', 'True'], 'batches': SOME_WHOLES, 'nodes': SOME_WHOLES, 'input_length': WHOLE_1,
        'pairs': ['5', '()', "('x',)", "(('x', 2),)", '((5, 0.5),)', "(('x', 0.5, 1),)"], 'max_decode_len': WHOLE_1,
        'places': ['5', '()', "('v4',)", "(('v9', '1x1'),)", "(('v4', 1),)"], 'layer_seconds': NOT_NEGATIVE,
        'sampling': [*OBJECT, 'None'],
        'compiled': ['5', '(5,)', "(('x', 'v4', '1x1x1', 1),)", "(('x', 'v4', '1x1x1', 0, 7),)", 'None']}),
    'fit_ngram': (['gin/runs/fit_ngram.gin', FILE], {
        'order': [*WHOLE_1, '3'], 'successors': WHOLE_1, 'field': CHOICE, 'vocabulary': OBJECT}),
    'fit_vocabulary': (['gin/runs/fit_vocabulary.gin', FILE], {
        'kind': CHOICE, 'size': WHOLE_1, 'lowercase': FLAG, 'field': CHOICE}),
    'train': ([TRAIN], {
        'steps': WHOLE_0, 'tokens_per_batch': WHOLE_1, 'buckets': SOME_WHOLES, 'source_buckets': WHOLES,
        'label_smoothing': [*PROBABILITY, '1'], 'seed': SEED, 'eval_every': WHOLE_1, 'checkpoint_every': WHOLE_1,
        'log_every': WHOLE_1, 'bleu_pairs': WHOLE_0, 'max_decode_len': WHOLE_1, 'storage': CHOICE, 'divergence': CHOICE,
        'mesh': OBJECT, 'microbatches': WHOLE_1, 'config': OBJECT, 'make_optimizer': ['5', "'x'", 'None'],
        'init_from': OBJECT, 'teacher': OBJECT, 'train_pairs': ['5', "'x'", 'None', '[5]', '[[5]]']}),
}

# Settings of parts: the run whose configuration has them, bindings that they need, and wrong values.
OF_PARTS = {
    'Sampling.temperature': ('decode', [], no_sampling([*NO_NUMBER, 'None', '-1', '1e-40', '1e400'])),
    'Sampling.top_k': ('decode', [], no_sampling(WHOLE_0)),
    'Sampling.top_p': ('decode', [], no_sampling([*PROBABILITY, '0'])),
    'greedy/Sampling.temperature': ('compare', [], no_sampling(NO_NUMBER)),
    'read_examples.limit': ('decode', [], or_none(WHOLE_1)),
    'read_examples.words': ('decode', [], or_none(WHOLE_1)),
    'read_examples.text_field': ('decode', [], ['0.5', '-1', '[]', "''", 'True']),
    'read_examples.reference_field': ('decode', [], ['0.5', '-1', '[]', "''"]),
    'read_examples.id_field': ('decode', [], ['0.5', '-1', '[]', "''"]),
    'INPUTS': ('decode', [], PATH),
    'TARGET': ('decode', [], PATH),
    'DRAFT': ('decode', [], PATH),
    'OUTPUT_DIR': ('decode', [], PATH),
    'SAMPLING': ('decode', [], OBJECT),
    'main.compilation_cache_dir': ('decode', [], or_none(PATH)),
    'main.hosts': ('decode', [], OBJECT),
    'main.run': ('decode', [], ['5', "'decode'", 'None']),
    'load_model.dtype': ('decode', [], [value for value in CHOICE if value != 'None']),
    'load_model.mesh': ('decode', [], OBJECT),
    'load_model.replicated': ('decode', [], FLAG),
    'Mesh.data': ('decode', ['load_model.mesh = @Mesh()'], WHOLE_1),
    'Mesh.model': ('decode', ['load_model.mesh = @Mesh()'], WHOLE_1),
    'Hosts.timeout': ('decode', ['main.hosts = @Hosts()'], WHOLE_1),
    'LookupDrafter.source': ('decode', ['DRAFTER = @LookupDrafter()'], CHOICE),
    'LookupDrafter.max_match': ('decode', ['DRAFTER = @LookupDrafter()'], WHOLE_1),
    'schedule.peak': ('train', [], POSITIVE),
    'schedule.warmup_steps': ('train', [], WHOLE_0),
    'schedule.decay_steps': ('train', [], WHOLE_0),
    'optimizer.max_grad_norm': ('train', [], POSITIVE),
    'optimizer.make': ('train', [], ['5', "'adamw'", 'None']),
    'optimizer.schedule': ('train', [], ['5', "'x'", 'None']),
    'adamw.b1': ('train', [], [*PROBABILITY, '1']),
    'adamw.b2': ('train', [], [*PROBABILITY, '1']),
    'adamw.weight_decay': ('train', [], NOT_NEGATIVE),
    'adamw.scale_by_param_rms': ('train', [], FLAG),
    'MinimumLength.length': ('decode', ['decode.logits_processors = (@MinimumLength(),)'], WHOLE_0),
    'RepetitionPenalty.penalty': ('decode', ['decode.logits_processors = (@RepetitionPenalty(),)'], POSITIVE),
    'Tree.parents': ('decode', ['decode.tree = @Tree()'],
                     ['5', "'x'", 'None', '()', '(0,)', '(-2,)', '(-1, 1)', '(-1.5,)', "('x',)", '(True,)', '{}']),
    'full_tree.children': ('decode', ['decode.tree = @full_tree()'], SOME_WHOLES),
    'spine_tree.depth': ('decode', ['decode.tree = @spine_tree()'], WHOLE_1),
    'spine_tree.width': ('decode', ['decode.tree = @spine_tree()'], WHOLE_1),
    'best_tree.acceptance_by_rank': ('decode', ['decode.tree = @best_tree()'], [
        '0.5', "'x'", 'None', '()', '(1.5,)', '(-0.1,)', '(0.7, 0.7)', "('x',)", '(None,)', '((0.5,),)', '{}']),
    'best_tree.max_nodes': ('decode', BEST, WHOLE_1),
    'best_tree.max_depth': ('decode', BEST, WHOLE_1),
    'best_tree.c': ('decode', BEST, NOT_NEGATIVE),
    'best_tree.verify_costs': ('decode', BEST, ['5', "'x'", 'None', '(5,)', '((4,),)', '((4, 1, 1),)', '((4, 0),)',
                                                '((-4, 1),)', "(('x', 1),)", '{}']),
    'ForbiddenTokens.tokens': ('decode', ['decode.logits_processors = (@ForbiddenTokens(),)'],
                               ['5', "'5'", '()', '(-1,)', "('5',)", '(1.5,)', 'None']),
}
GIVEN = {'TARGET': "'x'", 'DRAFT': "'x'", 'INPUTS': "'x.txt'", 'OUTPUT_DIR': "'x'", 'PROMPT': "'x'",
         'VOCABULARY': "'x'", 'DRAFTERS': "{'x': @RandomDrafter()}", 'STEPS': '4'}

CASES = [(run, name if '.' in name or name.isupper() else f'{run}.{name}', [], values)
         for run, (_, of_run) in OF_RUNS.items() for name, values in of_run.items()]
CASES += [(run, name, more, values) for name, (run, more, values) in OF_PARTS.items()]


def parse(run, *changes):
  files = OF_RUNS[run][0]
  macros = gin_config_macros(files)
  gin_config.parse(files, [*(f'{name} = {value}' for name, value in GIVEN.items() if name in macros), *changes])


def gin_config_macros(files):
  from specdec_jax.cli import subcommands
  return {name for file in files for name in subcommands._macros(file, ())}


@pytest.mark.parametrize('run', OF_RUNS)
def test_the_configurations_are_right_without_a_wrong_setting(run):
  parse(run)


@pytest.mark.parametrize('run, name, more, values', CASES, ids=[f'{run}-{name}' for run, name, *_ in CASES])
def test_wrong_values_in_gin(run, name, more, values, monkeypatch):
  monkeypatch.setattr(bindings, 'is_light', _loads_nothing(bindings.is_light))
  wrong = []
  for value in values:
    try:
      parse(run, *more, f'{name} = {value}')
    except UserError as e:
      line = one_line(e)
      if name.split('/')[-1] not in line or '\n' in str(e):
        wrong.append(f'{value}: {line}')
    else:
      wrong.append(f'{value}: accepted')
  assert not wrong


def _loads_nothing(is_light):
  """`is_light`, that no loader passes for one."""
  def checked(configurable):
    found = is_light(configurable)
    assert not (found and configurable.wrapped.__name__.startswith(('load', 'read', 'task')))
    return found

  return checked


def test_they_are_some_hundreds():
  assert sum(len(values) for *_, values in CASES) > 900


def test_every_setting_of_every_run_is_checked():
  """But what only another part can check."""
  from specdec_jax.runs.registry import RUNS
  for run in RUNS.values():
    code = run.function.__wrapped__ if hasattr(run.function, '__wrapped__') else run.function
    parameters = code.__code__.co_varnames[:code.__code__.co_argcount + code.__code__.co_kwonlyargcount]
    unchecked = set(parameters) - set(arguments.declared(run.function)) - {'output_dir'}
    assert not unchecked, (run.name, unchecked)


EXAMPLES = [Example(0, 'a')]
IN_PYTHON = {
    'Sampling.temperature': [lambda v=v: sd.Sampling(temperature=v) for v in ('1', None, -1, [1], float('nan'), True)],
    'Sampling.top_k': [lambda v=v: sd.Sampling(top_k=v) for v in ('1', None, -1, 1.5)],
    'Sampling.top_p': [lambda v=v: sd.Sampling(top_p=v) for v in ('1', None, 0, 1.5)],
    'Mesh.data': [lambda v=v: sd.Mesh(data=v) for v in ('1', None, 0, 1.5, [1])],
    'Mesh.model': [lambda v=v: sd.Mesh(model=v) for v in ('1', None, 0, 1.5)],
    'Hosts.timeout': [lambda v=v: Hosts(timeout=v) for v in ('1', None, 0, 1.5)],
    'LookupDrafter.source': [lambda v=v: sd.LookupDrafter(source=v) for v in (1, None, 'x', ['input'])],
    'LookupDrafter.max_match': [lambda v=v: sd.LookupDrafter(max_match=v) for v in ('1', None, 0, 1.5)],
    'batch_size': [lambda v=v: InputOptions(batch_size=v) for v in ('1', None, 0, 1.5)],
    'buckets': [lambda v=v: InputOptions(buckets=v) for v in (5, '5', (0,), None, ('5',))],
    'decode.gamma': [lambda v=v: decode('x', gamma=v) for v in ('4', 0, [4], 1.5)],
    'decode.tree': [lambda v=v: decode('x', tree=v) for v in ('4', 0, [4], 1.5, True, sd.Tree)],
    'decode.verification': [lambda v=v: decode('x', verification=v) for v in (1, 'blocks', '', ['block'])],
    'decode.target': [lambda v=v: decode('x', v, EXAMPLES) for v in (5, 'x', None, sd.Model)],
    'decode.examples': [lambda v=v: decode('x', examples=v) for v in (5, 'x', None)],
    'decode.drafter': [lambda v=v: decode('x', drafter=v) for v in (5, 'x', sd.RandomDrafter)],
    'schedule.peak': [lambda v=v: optimizer.schedule(10, peak=v) for v in ('1', None, 0, -1)],
    'adamw.b1': [lambda v=v: optimizer.adamw(None, b1=v) for v in ('1', None, 1, -1)],
    'adafactor.decay_rate': [lambda v=v: optimizer.adafactor(None, decay_rate=v) for v in ('1', None, 1)],
    'path': [lambda v=v: sd.load_model(v) for v in (5, None, '', ['x'], 'a\0b')],
    'dtype': [lambda v=v: sd.load_model('embedded:ende/draft', dtype=v) for v in (5, 'float16', '')],
    'mesh': [lambda v=v: sd.load_model('embedded:ende/draft', mesh=v) for v in (5, 'x')],
    'storage': [lambda v=v: sd.save_model(tiny.random_t5(0), 'x', storage=v) for v in (5, None, 'float16')],
}


@pytest.mark.parametrize('name', IN_PYTHON)
def test_wrong_values_in_python(name, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for call in IN_PYTHON[name]:
    with pytest.raises(UserError, match=name.replace('.', r'\.')) as caught:
      call()
    assert '\n' not in str(caught.value)
  assert not os.listdir(tmp_path)


OF_FILES = [
    (["TARGET = 'nothing'"], 'nothing'), (["TARGET = 'https://x/y'"], 'https://x/y'),
    (["TARGET = 'words.txt'"], r'words\.txt'),
    (["INPUTS = 'nothing.txt'"], r'nothing\.txt'), (["INPUTS = 'words.pdf'"], r'words\.pdf'),
    (["INPUTS = 'empty.txt'"], 'empty'), (["INPUTS = 'folder.txt'"], r'folder\.txt'),
    (["INPUTS = 'utf16.txt'"], r'utf16\.txt'),
    (["INPUTS = 'embedded:nothing'"], 'embedded:nothing'), (["INPUTS = 'words.jsonl'"], r'words\.jsonl'),
    (["OUTPUT_DIR = 'words.txt'"], r'words\.txt'),
    (["OUTPUT_DIR = '/proc/none/x'"], '/proc/none'), (["DRAFT = 'folder.txt'"], r'folder\.txt'),
    (["TARGET = 'torn'"], 'torn'),
]


# Imports TensorFlow, as everything on gs:// does.
ON_GS = pytest.param(["OUTPUT_DIR = 'gs://bucket/x'"], 'gs://bucket/x', marks=pytest.mark.long, id='gs')


@pytest.mark.parametrize('changes, words', [
    *(pytest.param(*case, id=case[0][0]) for case in OF_FILES), ON_GS])
def test_wrong_files(changes, words, files, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'words.txt').write_text('the file\n')
  (tmp_path / 'words.pdf').write_text('the file\n')
  (tmp_path / 'words.jsonl').write_text('the file\n')
  (tmp_path / 'empty.txt').write_text('\n')
  (tmp_path / 'utf16.txt').write_text('the file\n', encoding='utf-16')
  (tmp_path / 'folder.txt').mkdir()
  (tmp_path / 'torn').mkdir()
  (tmp_path / 'torn' / 'config.json').write_text('{"architecture": "t5"')
  given = [f"TARGET = '{files}/target'", f"DRAFT = '{files}/draft'", "INPUTS = 'words.txt'", "OUTPUT_DIR = 'out'",
           'main.compilation_cache_dir = None']
  with pytest.raises(UserError, match=words) as caught:
    gin_config.parse(OF_RUNS['decode'][0], [*given, *changes])
    gin.get_configurable('main')()
  assert '\n' not in one_line(caught.value)
