"""Draft trees over pairs, chips, batches and sizes: predictions, whole compilations beside them, and a picture."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from specdec_jax.reports import paper
from specdec_jax.reports.tables import markdown as table, number
from specdec_jax.sampling import Sampling
from specdec_jax.tpu import shapes
from specdec_jax.tpu.acceptance import acceptance_by_rank
from specdec_jax.tpu.chips import get_chip
from specdec_jax.tpu.planner import Plan
from specdec_jax.tpu.prediction import Deployment, best_tree, held_bytes, holds, times
from specdec_jax.tpu.tables import PAPER_DRAFTS
from specdec_jax.tree import Tree

CHAIN = 7  # the paper's gamma for T5-small, beside which trees are put


def predictions(target: Any, pairs: Sequence[tuple[Any, float]], places: Sequence[tuple[str, str]],
                batches: Sequence[int], nodes: Sequence[int], sampling: Sampling = Sampling(temperature=0.0),
                **shape) -> list[dict]:
  """From sizes alone: for each draft, place and batch a chain of 7 and the best trees of so many nodes.

  Args:
    target: as in `tpu.plan`.
    pairs: (draft, alpha).
    places: (chip, topology).
    batches, nodes: each with each.
    sampling: at whose temperature candidates of each rank are assumed to be accepted.
    **shape: further fields of `Deployment`.

  Returns:
    A row each; what is predicted is None where the sizes alone do not fit, by `prediction.holds`. `fastest` is the best
    tree of up to the largest size, with what its own verify pass costs.
  """
  rows = []
  for (draft, alpha), (chip, topology), batch in itertools.product(pairs, places, batches):
    at = Deployment(target=shapes.abstract_model(target), drafter=shapes.abstract_drafter(draft), chip=get_chip(chip),
                    topology=topology, batch=batch, **{'input_length': 128, 'max_decode_len': 128, **shape})
    ranks = acceptance_by_rank(alpha, sampling)
    common = {'draft': draft, 'alpha': alpha, 'chip': chip, 'topology': topology, 'batch': batch}
    trees: dict[str | int, Tree | int] = {'chain': CHAIN, **{n: best_tree(at, n, ranks, free=True) for n in nodes},
             'fastest': best_tree(at, max(nodes), ranks)}
    for kind, tree in trees.items():
      p = times(at, tree, ranks)
      assert p.tree is not None
      fits = holds(at, p.tree.num_nodes)
      rows.append({**common, 'kind': kind, 'nodes': p.tree.num_nodes, 'levels': p.tree.depth,
                   'held': held_bytes(at, p.tree.num_nodes), **{
          name: getattr(p, name) if fits else None
          for name in ('target_step', 'verify_pass', 'drafting', 'tokens_per_call', 'speed_up')}})
  return rows


def compiled(plan: Plan, draft: Any) -> dict:
  """What the compiler made of a cell's whole decode program: bytes of one device, and what it does with the weights."""
  at, found, p = plan.deployment, plan.iteration, plan.predicted
  return {
      'draft': draft, 'chip': at.chip.name, 'topology': at.topology, 'batch': at.batch,
      'name': plan.tree.name if plan.tree else 'no draft', 'kind': plan.nodes, 'fits': plan.fits,
      'memory': dataclasses.asdict(plan.memory),
      'target_read': found and found.bytes_read('target'), 'draft_read': found and found.bytes_read('draft'),
      'read_twice': found and sum(times > 1.01 for path, times in found.reads.items() if path.startswith('target/')),
      'rewritten': found and len(found.rewritten), 'copied_caches': found and len(found.copied_caches),
      'warnings': list(plan.warnings), 'verify_pass': p and p.verify_pass, 'speed_up': p and p.speed_up}


def beside_the_paper(nodes: Sequence[int], **shape) -> list[dict]:
  """Each row of Table 2 on one v4: its figures, the planner's for its gamma, and for trees; sizes alone are needed."""
  rows = []
  for e in paper.TABLE_2:
    at = Deployment(target=shapes.abstract_model('t5_1_1_xxl'), drafter=shapes.abstract_drafter(PAPER_DRAFTS[e.draft]),
                    chip=get_chip('v4'), topology='1x1x1', batch=1,
                    **{'input_length': 128, 'max_decode_len': 128, **shape})
    ranks = acceptance_by_rank(e.alpha, Sampling(temperature=e.temperature))
    rows.append({'task': e.task, 'draft': e.draft, 'temperature': e.temperature, 'gamma': e.gamma, 'alpha': e.alpha,
                 'paper_predicted': e.predicted, 'paper_speed_up': e.speed_up,
                 'chain': times(at, e.gamma, ranks).speed_up,
                 'trees': {n: times(at, best_tree(at, n, ranks, free=True), ranks).speed_up for n in nodes}})
  return rows


def paper_markdown(rows: Sequence[dict]) -> str:
  """What `beside_the_paper` found."""
  nodes = list(rows[0]['trees'])
  return table(
      ['task', 'draft', 'temp.', 'gamma', 'alpha', 'paper, measured', "paper's thm 3.8", 'chain',
       *(f'{n} nodes' for n in nodes)],
      [[r['task'], r['draft'], r['temperature'], r['gamma'], number(r['alpha']), number(r['paper_speed_up'], 1, 'X'),
        number(r['paper_predicted'], 1, 'X'), number(r['chain'], 2, 'X'),
        *(number(r['trees'][n], 2, 'X') for n in nodes)] for r in rows], 'll' + 'r' * (6 + len(nodes)))


def compiled_markdown(rows: Iterable[dict]) -> str:
  """A row a whole compilation; GB of one device."""
  def line(r):
    memory = r['memory']
    held = [number(memory[name] and memory[name] / 1e9) for name in ('caches', 'temporaries', 'peak')]
    if not r['fits']:
      held[1:] = ['refused', None]
    read = [number(r[name] and r[name] / 1e9) for name in ('target_read', 'draft_read')]
    return [_short(r['draft']), f"{r['chip']} {r['topology']}", r['batch'], r['name'], *held, *read, r['read_twice'],
            r['rewritten'], r['copied_caches'], number(r['speed_up'], 2, 'X')]

  return table(['draft', 'chip', 'batch', 'draft of', 'caches', 'temporaries', 'peak', 'target read', 'draft read',
                'read twice', 'rewritten', 'caches copied', 'predicted'], map(line, rows), 'llrl' + 'r' * 9)


def speed_up_markdown(rows: Sequence[dict], whole: Iterable[dict] = ()) -> str:
  """Speed-ups: a row a draft, chip and batch, a column a size; '*' where the whole program was compiled."""
  marked = {_cell(r) for r in whole if r['fits']}
  refused = {_cell(r) for r in whole if not r['fits']}
  nodes = _sizes(rows)

  def shown(r):
    if r['speed_up'] is None or _cell(r) in refused:
      return None
    return f"{r['speed_up']:.2f}X{'*' if _cell(r) in marked else ''}"

  lines = []
  for key, group in _grouped(rows):
    of = {r['kind']: r for r in group}
    fastest = of['fastest']
    lines.append([*key, *(shown(of[kind]) for kind in ('chain', *nodes)),
                  shown(fastest) and f"{shown(fastest)} ({fastest['nodes']})"])
  return table(['draft', 'alpha', 'chip', 'batch', f'chain of {CHAIN}', *(f'{n} nodes' for n in nodes), 'best (nodes)'],
               lines, 'lrlr' + 'r' * (2 + len(nodes)))


def passes_markdown(rows: Sequence[dict]) -> str:
  """Milliseconds of the target's passes with the first draft; the others' are the same."""
  milliseconds = lambda x: number(x and 1e3 * x, 1)
  return _of_first_draft(rows, 'one token', lambda r: milliseconds(r['target_step']),
                         lambda r: milliseconds(r['verify_pass']))


def held_markdown(rows: Sequence[dict]) -> str:
  """GB of weights and caches of one device with the first draft, by size."""
  return _of_first_draft(rows, 'allowed', lambda r: number(get_chip(r['chip']).usable / 1e9, 1),
                         lambda r: number(r['held'] / 1e9, 1))


def _of_first_draft(rows: Sequence[dict], title: str, of_all: Callable, of_one: Callable) -> str:
  """A row a chip and batch: what `of_all` says of its chain, then what `of_one` says of each size."""
  nodes = _sizes(rows)
  lines = []
  for key, group in _grouped([r for r in rows if r['draft'] == rows[0]['draft']]):
    of = {r['kind']: r for r in group}
    lines.append([*key[2:], of_all(of['chain']), *(of_one(of[kind]) for kind in ('chain', *nodes))])
  return table(['chip', 'batch', title, f'chain of {CHAIN}', *(f'{n} nodes' for n in nodes)], lines,
               'lr' + 'r' * (2 + len(nodes)))


def plot(rows: Sequence[dict], path: str) -> None:
  """Speed-up over nodes: a panel a chip, a line a batch with the first draft, and the others' at the first batch."""
  from matplotlib.figure import Figure
  places = list(dict.fromkeys((r['chip'], r['topology']) for r in rows))
  drafts, batches = (list(dict.fromkeys(r[name] for r in rows)) for name in ('draft', 'batch'))
  lines = [(drafts[0], b, '-') for b in batches] + [(d, batches[0], '--') for d in drafts[1:]]
  figure = Figure(figsize=(3.2 * len(places) + 2.5, 3.4), layout='constrained')
  for axes, place in zip(figure.subplots(1, len(places), sharey=True, squeeze=False)[0], places):
    for draft, batch, style in lines:
      points = [(r['nodes'], r['speed_up']) for r in rows if isinstance(r['kind'], int) and r['speed_up'] is not None
                and (r['chip'], r['topology']) == place and (r['draft'], r['batch']) == (draft, batch)]
      axes.plot([n for n, _ in points], [s for _, s in points], style, marker='.',
                label=f'{_short(draft)}, batch {batch}')
    if place == ('v4', '1x1x1'):
      first = paper.TABLE_2[0]
      axes.plot(first.gamma, first.speed_up, 'k*', label=f'paper, {first.draft}, gamma {first.gamma}')
    axes.axhline(1, color='grey', linewidth=0.8)
    axes.set(title=' '.join(place), xscale='log', xlabel='nodes')
    axes.set_xticks(_sizes(rows))
    axes.xaxis.set_major_formatter('{x:.0f}')
    axes.minorticks_off()
  figure.axes[0].set_ylabel('predicted speed-up')
  figure.legend(*figure.axes[0].get_legend_handles_labels(), loc='outside right center', frameon=False, fontsize=8)
  figure.savefig(path, dpi=150)


def _sizes(rows: Sequence[dict]) -> list[int]:
  return sorted({r['kind'] for r in rows if isinstance(r['kind'], int)})


def _cell(r: dict) -> tuple:
  return str(r['draft']), r['chip'], r['topology'], r['batch'], r['kind']


def _grouped(rows: Sequence[dict]):
  """(draft, alpha, chip and topology, batch) and its rows."""
  key = lambda r: (_short(r['draft']), number(r['alpha']), f"{r['chip']} {r['topology']}", r['batch'])
  return [(k, list(group)) for k, group in itertools.groupby(rows, key)]


def _short(draft: Any) -> str:
  """'T5-small' of 't5_1_1_small'."""
  return {value: name for name, value in PAPER_DRAFTS.items()}.get(draft, str(draft))
