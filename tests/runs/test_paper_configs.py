"""configs/table2, table3, table5 and beyond against paper and planner; what scripts/write_paper_configs.py writes."""

import pathlib
import runpy

import gin
import pytest

import specdec_jax.cli.configurables  # noqa: F401 (registers what gin files name)
from specdec_jax.cli import gin_config
from specdec_jax.models.known import known_config
from specdec_jax.reports import paper
from specdec_jax.tpu.acceptance import acceptance_by_rank
from specdec_jax.tpu.chips import get_chip
from specdec_jax.tpu.prediction import Deployment, best_tree, predict
from specdec_jax.tpu.shapes import abstract_drafter, abstract_model

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / 'configs'
TASKS = {'EnDe': 'ende', 'CNN/DM': 'cnn_dm'}
GIVEN = [f"{name} = 'x'" for name in ('TARGET', 'DRAFT', 'OUTPUT_DIR')]


def parse(name, given=GIVEN):
  """The header as one line, and every setting as text."""
  path = CONFIGS / name
  gin_config.parse([str(path)], given)
  flat = gin_config.flat()
  gin.clear_config()
  comment = path.read_text().split('\n\n')[0].splitlines()
  return ' '.join(line.lstrip('# ') for line in comment), flat


def file_of(row):
  return f"table2/{TASKS[row.task]}_{row.draft.removeprefix('T5-')}_t{row.temperature:g}.gin"


def test_files_are_those_that_the_script_writes():
  script = runpy.run_path(str(CONFIGS.parent / 'scripts' / 'write_paper_configs.py'))
  written = {**script['table_2'](), **script['t5_small'](), **script['table_5'](), **script['tree']()}
  assert len(written) == 12 + 2 + 3 + 1
  assert [path for path, text in written.items() if (CONFIGS.parent / path).read_text() != text] == []


@pytest.mark.parametrize('row', paper.TABLE_2, ids=file_of)
def test_table_2(row):
  header, flat = parse(file_of(row))
  assert f'Table 2, {row.task} with {row.draft} at temperature {row.temperature:g}' in header
  assert f'alpha {row.alpha:.2f}, speed-up {row.speed_up}X over T5X' in header
  assert flat['compare.gammas'] == f'({row.gamma},)'
  assert float(flat['Sampling.temperature']) == row.temperature
  assert flat['load_model.dtype'] == "'bfloat16'"
  assert flat['MIXTURE_OR_TASK_NAME'] == {
      'EnDe': "'specdec_wmt14_ende'", 'CNN/DM': "'specdec_cnn_dm'"}[row.task]


def test_table_2_has_twelve_experiments():
  assert {f'table2/{p.name}' for p in (CONFIGS / 'table2').iterdir()} == {
      file_of(row) for row in paper.TABLE_2}


@pytest.mark.parametrize('task', TASKS)
def test_the_two_temperatures_of_t5_small_in_one_run(task):
  header, flat = parse(f'{TASKS[task]}_t5_xxl_small.gin')
  for row in paper.TABLE_2:
    if (row.task, row.draft) == (task, 'T5-small'):
      assert (f'temperature {row.temperature:g}: alpha {row.alpha:.2f}, speed-up {row.speed_up}X '
              f'over T5X; thm 3.8 with c = 0.02: {row.predicted}X') in header
      assert flat['compare.gammas'] == f'({row.gamma},)'


def test_table_2_s_first_row_with_a_tree():
  """Its tree is the planner's for a v4, and its header has the planner's figures."""
  header, flat = parse('beyond/ende_t5_xxl_small_tree.gin')
  row = paper.TABLE_2[0]
  assert f'gamma 7: alpha {row.alpha:.2f}, speed-up {row.speed_up}X over T5X' in header
  assert flat['compare.gammas'] == '(7,)' and flat['compare.trees'] == '(@best_tree(),)'
  assert float(flat['Sampling.temperature']) == 0 and flat['load_model.dtype'] == "'bfloat16'"
  gin_config.parse([str(CONFIGS / 'beyond/ende_t5_xxl_small_tree.gin')], GIVEN)
  found = gin.get_configurable('best_tree')()
  gin.clear_config()
  at = Deployment(target=abstract_model('t5_1_1_xxl'), drafter=abstract_drafter('t5_1_1_small'), chip=get_chip('v4'),
                  topology='1x1x1', batch=1, input_length=128, max_decode_len=128)
  ranks = acceptance_by_rank(row.alpha)
  fastest = best_tree(at, 63, ranks, free=True)
  assert (found.num_nodes, found.depth) == (63, fastest.depth)
  planned, chain = predict(at, fastest, ranks), predict(at, row.gamma, ranks)
  assert predict(at, found, ranks).speed_up == pytest.approx(planned.speed_up, rel=1e-3) and planned.speed_up >= 4.5
  for name, p in (('gamma 7', chain), (f'63 nodes in {fastest.depth} levels', planned)):
    assert f'{name}: {p.tokens_per_call:.2f} tokens a target call, {p.speed_up:.2f}X' in header


NGRAM = ["TARGET = 'x'", "NGRAM = 'x'", "OUTPUT_DIR = 'x'"]


@pytest.mark.parametrize('task', TASKS)
def test_table_3(task):
  header, flat = parse(f'table3/{TASKS[task]}_ngrams.gin', NGRAM)
  for draft in ('unigram', 'bigram'):
    cold, warm = (r.alpha for r in paper.TABLE_3 if (r.task, r.draft) == (task, draft))
    assert f'{draft}: alpha {cold:.2f} at temperature 0, {warm:.2f} at temperature 1' in header
  assert flat['unigram/load_ngram.order'] == '1' and flat['bigram/load_ngram.order'] == '2'


def test_table_3s_bigram_speed_up_and_lamda():
  header, flat = parse('table3/ende_bigram_speed.gin')
  assert f"speed-up {paper.BIGRAM_ENDE['speed_up']}X" in header
  assert flat['compare.gammas'] == f"({paper.BIGRAM_ENDE['gamma']},)"
  header, flat = parse('table3/pair_top40.gin', [*GIVEN, "INPUTS = 'x'"])
  assert flat['Sampling.top_k'] == '40'
  for draft in ('LaMDA (100M)', 'LaMDA (2B)', 'LaMDA (8B)'):
    cold, warm = (r.alpha for r in paper.TABLE_3 if r.draft == draft)
    assert f'alpha {cold:.2f} at temperature 0, {warm:.2f} at temperature 1' in header


@pytest.mark.parametrize('size, temperature', [('small', 1), ('base', 1), ('small', 0)])
def test_table_5(size, temperature):
  header, flat = parse(f'table5/ende_{size}_t{temperature}.gin')
  rows = [r for r in paper.TABLE_5 if (r.draft, r.temperature) == (f'T5-{size}', temperature)]
  assert f"alpha {', '.join(f'{r.alpha:.2f}' for r in rows)} at lenience" in header
  if rows[0].speed_up:
    assert f"speed-up {', '.join(f'{r.speed_up}X' for r in rows)}, with" in header
  assert flat['compare.leniences'] == str(tuple(r.lenience for r in rows))
  assert flat['compare.gammas'] == f'({rows[0].gamma},)' or rows[0].gamma is None


def test_table_5_with_tables():
  header, flat = parse('table5/ende_ngrams_t1.gin', NGRAM)
  for draft in ('unigram', 'bigram'):
    alphas = [f'{r.alpha:.2f}' for r in paper.TABLE_5 if r.draft == draft]
    assert f"{draft}: alpha {', '.join(alphas)} at lenience" in header
  assert flat['alphas.leniences'] == '(1.0, 0.5, 0.3, 0.1)'


def test_files_may_stand_in_for_tfds():
  _, flat = parse('table2/ende_small_t0.gin', [
      *GIVEN, "task_examples.files = {'test': 'a.jsonl'}", "task_examples.vocabulary = 'a.model'",
      'compare.t5x = True'])
  assert flat['task_examples.files'] == "{'test': 'a.jsonl'}"


@pytest.mark.parametrize('task', TASKS)
def test_fine_tuning_is_t5s(task):
  given = [f"{n} = 'x'" for n in ('INITIAL_CHECKPOINT', 'VOCABULARY', 'OUTPUT_DIR')]
  _, flat = parse(f'finetune/{TASKS[task]}.gin', given)
  assert flat['schedule.peak'] == '0.001' and flat['schedule.warmup_steps'] == '0'
  assert flat['T5Config.dropout_rate'] == '0.1' and flat['train.tokens_per_batch'] == '65536'
  assert flat['optimizer.make'] == '@adafactor'
  gin_config.parse([str(CONFIGS / f'finetune/{TASKS[task]}.gin'), 'gin/models/t5_1_1_xxl.gin'],
                   given)
  assert gin.get_configurable('T5Config')().emb_dim == 4096
  gin.clear_config()


@pytest.mark.parametrize('size, width, parts', [('xl', 2048, 4), ('xxl', 4096, 8)])
@pytest.mark.parametrize('task', TASKS)
def test_large_sizes_are_fine_tuned_on_a_mesh(task, size, width, parts):
  given = [f"{n} = 'x'" for n in ('INITIAL_CHECKPOINT', 'VOCABULARY', 'OUTPUT_DIR')]
  _, flat = parse(f'finetune/{TASKS[task]}_{size}.gin', given)
  sizes = known_config(flat['T5Config.name'].strip("'"))
  assert (sizes.emb_dim, flat['Mesh.model']) == (width, str(parts))
  assert flat['train.mesh'] == flat['load_model.mesh'] == '@Mesh()'
  assert sizes.num_heads % parts == 0
