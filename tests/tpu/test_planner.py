"""What the TPU compiler makes of the decode program; needs libtpu, no TPU."""

import json
import pathlib
import re

import gin
import jax
import pytest

import specdec_jax.cli.configurables  # noqa: F401 (registers what gin files name)
from specdec_jax import compilation, tpu
from specdec_jax.cli import gin_config
from specdec_jax.models import products
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.models.heads import HeadsConfig
from specdec_jax.models.known import known_config
from specdec_jax.parallel import partition
from specdec_jax.runs import plan as run
from specdec_jax.sampling import Sampling
from specdec_jax.tpu import compile as compile_lib, shapes, tables, topology as topology_lib
from specdec_jax.tpu.chips import CHIPS, get_chip
from specdec_jax.tpu.weight_use import audit
from specdec_jax.tree import Tree

pytestmark = pytest.mark.skipif(
    not topology_lib.has_compiler(),
    reason='the TPU compiler is in the package libtpu (Linux on x86-64), which is not installed')


CONFIGS = pathlib.Path(__file__).resolve().parents[2] / 'configs' / 'plan'


def config(layers=1, heads=8, **changes):
  """Wide enough that the compiler treats the projections as it does those of real models."""
  return T5Config(**{'vocab_size': 1024, 'emb_dim': 64 * heads, 'num_heads': heads, 'mlp_dim': 1024,
                     'num_encoder_layers': 1, 'num_decoder_layers': layers, **changes})


def gpt2(**changes):
  return GPT2Config(**{'vocab_size': 1024, 'emb_dim': 512, 'num_heads': 8, 'num_layers': 1,
                       'max_positions': 64, **changes})


def pass_over(model, tokens):
  """A pass over so many tokens, compiled for one v4."""
  mesh = partition.make_mesh(topology_lib.describe(get_chip('v4'), '1x1x1'))
  placed = partition.with_shardings(shapes.abstract_model(model), mesh)
  return compile_lib.pass_program(placed, Tree.chain(tokens - 1) if tokens > 1 else None, 1, 32, 64, mesh)


WHOLE = 24


@pytest.fixture(scope='session', params=[3, pytest.param(WHOLE, marks=pytest.mark.long)], ids=lambda n: f'{n}_layers')
def layers(request):
  return request.param


@pytest.fixture(scope='session')
def paper_pair(layers):
  """T5-XXL, of all its layers or of fewer, with T5-small on one v4 chip, gamma 7: the program and each pass alone."""
  return tpu.plan(known_config('t5_1_1_xxl', num_encoder_layers=layers, num_decoder_layers=layers), alpha=0.75)


def test_the_paper_s_pair_fits_one_v4(paper_pair, layers):
  memory = paper_pair.memory
  assert paper_pair.fits and paper_pair.smallest_slice == '1x1x1' and paper_pair.warnings == ()
  if layers == WHOLE:
    assert memory.weights == pytest.approx(22.43e9, rel=1e-3)
  assert memory.temporaries + memory.caches <= 0.3e9
  assert memory.weights + memory.caches < memory.peak < memory.capacity < 32 * 2 ** 30


def test_an_iteration_reads_each_weight_once(paper_pair, layers):
  reads = paper_pair.iteration.reads
  target = {path: times for path, times in reads.items() if path.startswith('target/')}
  assert len(target) == layers * 9 + 2
  assert target.pop('target/token_embedder/embedding') == 0
  assert set(target.values()) == {1.0}
  assert paper_pair.iteration.rewritten == () and paper_pair.iteration.copied_caches == ()


def test_a_verify_pass_costs_what_a_step_costs(paper_pair, layers):
  step, verify = paper_pair.traffic['target_step'], paper_pair.traffic['verify_pass']
  assert verify.counted_bytes <= 1.2 * step.counted_bytes
  if layers == WHOLE:
    assert verify.counted_bytes <= 1.3 * 23.1e9  # what one token took before lone rows were doubled
  for found in (step, verify):
    assert found.audit.rewritten == ()
    assert set(found.audit.reads.values()) == {0.0, 1.0}


def test_the_analytic_bytes_are_those_of_the_compiled_text(paper_pair):
  """Norms and biases aside, which the text's audit leaves out."""
  verify = paper_pair.traffic['verify_pass']
  assert verify.audit.bytes_read('model') == pytest.approx(verify.work.weights, rel=1e-3)
  assert paper_pair.iteration.bytes_read('target') == pytest.approx(verify.work.weights, rel=1e-3)
  draft = paper_pair.traffic['draft_step'].work.weights
  assert draft < paper_pair.iteration.bytes_read('draft') < 1.01 * 7 * draft


def test_report(paper_pair, layers):
  text = tables.markdown(paper_pair)
  assert 'fits' in text and 'No weight is copied' in text and '15 microseconds' in text
  predicted = json.loads(json.dumps(tables.to_json(paper_pair)))['predicted']
  if layers == WHOLE:
    assert predicted['best_gamma'] == 9


@pytest.mark.long
def test_run_writes_what_it_found(paper_pair, layers, monkeypatch, tmp_path, capsys):
  monkeypatch.setattr(run, 'compile_plan', lambda *args, **kwargs: paper_pair)
  result = run.plan(str(tmp_path), alpha=0.75, grid_batches=(1, 64), grid_chips=('v4', 'v5e'))
  assert len(result['grid']) == 3 * 2 * 2 and len(result.get('table_2', [])) == (12 if layers == WHOLE else 0)
  assert json.loads((tmp_path / 'plan.json').read_text()) == json.loads(json.dumps(result))
  assert (tmp_path / 'plan.md').read_text() == capsys.readouterr().out[:-1]
  assert (tmp_path / 'program.txt').read_text() == paper_pair.program
  assert (tmp_path / 'plan.png').stat().st_size > 1000


@pytest.mark.parametrize('file', sorted(set(CONFIGS.glob('*.gin')) - {CONFIGS / 't5_xxl_trees.gin'}),
                         ids=lambda f: f.stem)
def test_configurations_plan(paper_pair, file, monkeypatch, tmp_path):
  asked = []
  monkeypatch.setattr(run, 'compile_plan', lambda *args, **kwargs: asked.append((args, kwargs)) or paper_pair)
  gin_config.parse([str(file)], [f'OUTPUT_DIR = {str(tmp_path)!r}', 'main.compilation_cache_dir = None',
                                   'plan.grid_batches = (1,)', "plan.grid_chips = ('v4',)"])
  gin.get_configurable('main')()
  (target, draft, chip, topology, *_), _ = asked[0]
  assert f'{chip}' in file.stem and topology in get_chip(chip).slices
  assert json.loads((tmp_path / 'plan.json').read_text())['grid'][0]['speed_up'] > 1
  target = shapes.abstract_model(target)
  shapes.abstract_drafter(draft, target=target).check(target)


@pytest.mark.long
@pytest.mark.parametrize('kind, products', [('layer', 4), ('parallel', 1)])
def test_heads_on_the_target(kind, products):
  """The compiled program reads the target's vocabulary product once for each pass of the heads, and once to verify."""
  heads = HeadsConfig(kind=kind, width=1024, count=4, num_heads=16, mlp_dim=2816)
  found = tpu.plan(known_config('t5_1_1_xxl', num_encoder_layers=3, num_decoder_layers=3), heads, gamma=4)
  assert found.fits and found.warnings == ()
  assert found.iteration.reads.pop('target/decoder/logits_dense/kernel') == products + 1
  assert all(times <= 1 for path, times in found.iteration.reads.items() if path.startswith('target/'))
  assert found.memory.weights == shapes.num_bytes(found.deployment.target.params) + shapes.num_bytes(
      found.deployment.drafter.params)
  assert found.memory.weights + found.memory.caches < found.memory.peak < 1.05 * found.memory.weights
  assert found.deployment.drafter.name in tables.markdown(found)
  assert tables.to_json(found)['draft']['kind'] == kind


@pytest.mark.long
def test_rows_write_their_caches_in_place():
  found = tpu.plan(config(), config(), batch=4, gamma=3, input_length=32, max_decode_len=32,
                   sampling=Sampling(temperature=1.0), passes=False)
  assert found.fits and found.warnings == ()
  assert found.program.startswith('HloModule jit_decode_loop')


@pytest.mark.parametrize('chip, topology', [('v6e', '2x2')])
def test_a_slice_shares_the_target(chip, topology):
  one_chip = shapes.num_bytes(shapes.abstract_model(config()).params)
  found = tpu.plan(config(), None, chip, topology, input_length=32, max_decode_len=32, passes=False)
  assert found.deployment.devices == 4 and found.fits
  assert one_chip / 4 < found.memory.weights < one_chip / 3
  assert 0 < found.iteration.collectives['all-reduce'] < 12
  assert 'collectives an iteration between the 4 devices' in tables.markdown(found)


@pytest.mark.parametrize('setting, error', [
    (dict(topology='3x1x1'), "v4 has no slice '3x1x1'; it has 1x1x1, 2x2x1"),
    (dict(chip='v5e', topology='2x2x2'), "v5e has no slice '2x2x2'; it has 1x1, 2x2"),
    (dict(topology='2x2x1', target=config(heads=6)), r'4 parts, which do not divide the target \(num_heads '
     '= 6, mlp_dim = 1024, vocab_size = 1024\\); it divides into 1, 2: set data = 4 or 2,'),
    (dict(topology='2x2x1', draft=config(heads=6), split_draft=True), 'do not divide the draft'),
    (dict(data=2), 'data is 2, which must divide the 1 devices of v4 1x1x1 and the batch of 1'),
    (dict(batch=0), 'batch is 0; it must be a whole number'), (dict(gamma=0), 'gamma is 0'),
    (dict(alpha=1.5), 'alpha is 1.5; it must lie in')])
def test_mistakes_are_told_before_anything_is_compiled(setting, error, monkeypatch):
  monkeypatch.delattr(compile_lib, 'decode_program')
  with pytest.raises(ValueError, match=error):
    tpu.plan(**{'target': config(), 'draft': config(), **setting})


def test_what_does_not_fit_names_a_slice():
  found = tpu.plan(config(vocab_size=5_000_000, emb_dim=1024, heads=16), None, 'v5e', '1x1',
                   input_length=32, max_decode_len=32, passes=False)
  assert not found.fits and found.smallest_slice == '2x2' and found.program == ''
  assert 'refuses the program' in found.warnings[0] and re.search(r'\d\.\d\d GB', found.warnings[0])
  assert not re.search(r'\dG\b|GiB', found.warnings[0])  # 1e9 bytes, as everywhere


def test_nothing_is_predicted_where_it_does_not_fit():
  found = tpu.plan(config(vocab_size=5_000_000, emb_dim=1024, heads=16), config(vocab_size=5_000_000), 'v5e', '1x1',
                   alpha=0.9, input_length=32, max_decode_len=32)
  text = tables.markdown(found)
  assert found.predicted is None and tables.to_json(found)['predicted'] is None and tables.papers_rows(found) == []
  assert 'does not fit (smallest slice: 2x2)' in text and '1 GB is 1e9 bytes' in text
  assert 'speed-up' not in text and 'tokens/s' not in text and ' ms ' not in text


@pytest.mark.long
def test_kernels_are_taken_as_they_are_stored_on_tpu7x(monkeypatch):
  """By its own choice that compiler copies each kernel of the decoder into other tiles before the loop."""
  told = []
  plan = lambda: tpu.plan(config(heads=16), None, 'tpu7x', input_length=32, max_decode_len=32, tell=told.append)
  found = plan()
  if found.fits and any('cannot print the program' in warning for warning in found.warnings):
    pytest.skip(found.warnings[0])  # jax 0.10
  assert found.fits and found.warnings == () and found.iteration.rewritten == ()
  assert told == ['compiling the decode program for tpu7x 1x1x1', 'compiling the target step alone']
  monkeypatch.setattr(compilation, 'OPTIONS', {})
  assert len(plan().iteration.rewritten) > 5


def test_options_are_by_names_of_devices():
  kinds = {topology_lib.describe(chip, chip.slices[0]).flat[0].device_kind for chip in CHIPS.values()}
  assert len(kinds) == len(CHIPS) and set(compilation.OPTIONS) == {'TPU7x'} <= kinds


def test_decoder_only():
  found = tpu.plan(gpt2(num_layers=2), gpt2(), gamma=4, input_length=32, max_decode_len=32, passes=False)
  assert found.fits and found.warnings == () and found.deployment.cache_length(4) == 32 + 32 + 5
  reads = {path: times for path, times in found.iteration.reads.items() if path.startswith('target/decoder')}
  assert reads and set(reads.values()) == {1.0}  # so small that some stay on the chip
  assert found.memory.caches == 3 * 2 * 69 * 512 * 2  # layers, keys and values, places, columns, bytes
  assert 'GPT-2 (2 layers of width 512, bfloat16) with GPT-2 (1 layers' in tables.markdown(found)
  with pytest.raises(ValueError, match='that is 65 positions, and the model has 64'):
    tpu.plan(gpt2(), None, input_length=32, max_decode_len=33)


@pytest.mark.parametrize('model', [config(heads=16), gpt2(emb_dim=1024, num_heads=16)])
def test_a_lone_row_costs_what_eight_do(model):
  """By the compiler's estimate of its instructions; on the vector unit it is over twice as much."""
  cycles = lambda tokens: sum(
      int(n) for n in re.findall(r'estimated_cycles\\?":\\?"(\d+)', pass_over(model, tokens).text))
  assert 0 < cycles(1) < 1.3 * cycles(8)


def test_a_turned_kernel_would_be_found(monkeypatch):
  """Without the barrier after the projections the compiler turns their kernels."""
  monkeypatch.setattr(products.lax, 'optimization_barrier', lambda x: x)
  rewritten = audit(pass_over(config(heads=64), 8).text).rewritten
  assert any(re.search('query|key|value', line) for line in rewritten)


def test_a_program_that_cannot_be_printed_is_told(monkeypatch):
  """jax 0.10.2 cannot print T5-XXL's for tpu7x; memory and times are known all the same."""
  def as_text(self):
    raise jax.errors.JaxRuntimeError('INTERNAL: RET_CHECK failure')

  monkeypatch.setattr(jax.stages.Compiled, 'as_text', as_text)
  found = tpu.plan(config(), None, input_length=32, max_decode_len=32)
  assert found.fits and found.iteration is None and found.program == '' and found.memory.temporaries > 0
  assert found.traffic['target_step'].counted_bytes > 0 and 'cannot print the program' in found.warnings[0]
  assert 'cannot print' in tables.markdown(found) and json.dumps(tables.to_json(found))


def test_without_the_compiler_one_line_says_what_to_install(monkeypatch):
  monkeypatch.setattr(topology_lib, 'has_compiler', lambda: False)
  with pytest.raises(ImportError, match='pip install libtpu'):
    tpu.plan(config(), None)
