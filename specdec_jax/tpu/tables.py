"""Plans as markdown, as JSON and as a picture."""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence

from specdec_jax.reports import paper
from specdec_jax.reports.tables import markdown as table, number
from specdec_jax.reports.words import model_name
from specdec_jax.tpu import drafting, shapes
from specdec_jax.tpu.chips import get_chip
from specdec_jax.tpu.planner import Plan
from specdec_jax.tpu.prediction import Deployment, Predicted, holds, predict, smallest_slice

PAPER_DRAFTS = {'T5-small': 't5_1_1_small', 'T5-base': 't5_1_1_base', 'T5-large': 't5_1_1_large'}
ASSUMPTIONS = (
    'Time is a model, not a measurement: a pass reads each weight of the decoder that it needs and '
    'the whole of its caches once; it takes the longer of bytes / bandwidth and operations / peak, '
    'and {:.0f} microseconds a decoder layer beside. Encoder or prompt, sampling, the acceptance rule '
    'and the rows of a batch that wait for others are left out.')


def to_json(plan: Plan) -> dict:
  """Everything but the program, JSON-ready; bytes and seconds."""
  deployment, p = plan.deployment, plan.predicted
  part = lambda t: {'tokens': t.tokens, 'weight_bytes': t.work.weights, 'cache_bytes': t.work.caches,
                    'flops': t.work.flops, 'layers': t.work.layers, 'seconds': t.seconds,
                    'counted_bytes': t.counted_bytes, 'counted_flops': t.counted_flops,
                    'rewritten': t.audit and list(t.audit.rewritten)}
  return {
      'chip': deployment.chip.name, 'topology': deployment.topology, 'devices': deployment.devices,
      'batch': deployment.batch, 'input_length': deployment.input_length,
      'max_decode_len': deployment.max_decode_len, 'gamma': plan.gamma, 'tree': plan.tree and list(plan.tree.parents),
      'sampling': dataclasses.asdict(plan.sampling), 'target': dataclasses.asdict(deployment.target.config),
      'draft': (config := drafting.configuration(deployment.drafter)) and dataclasses.asdict(config),
      'assumptions': dataclasses.asdict(deployment.assumptions),
      'memory': dataclasses.asdict(plan.memory), 'fits': plan.fits, 'smallest_slice': plan.smallest_slice,
      'traffic': {name: part(t) for name, t in plan.traffic.items()},
      'weight_reads_an_iteration': plan.iteration and plan.iteration.reads,
      'weight_bytes_an_iteration': plan.iteration and {
          owner: plan.iteration.bytes_read(owner) for owner in ('target', 'draft')},
      'collectives_an_iteration': plan.iteration and plan.iteration.collectives,
      'predicted': p and {**_without_tree(p), 'alpha': p.alpha, 'c': p.c, 'verify_cost': p.verify_cost},
      'warnings': list(plan.warnings)}


def _without_tree(p: Predicted) -> dict:
  return {field.name: getattr(p, field.name) for field in dataclasses.fields(p) if field.name != 'tree'}


def markdown(plan: Plan) -> str:
  """A plan for people. Nothing is predicted for devices that do not hold the pair."""
  deployment, memory = plan.deployment, plan.memory
  fits = 'fits' if plan.fits else f'does not fit (smallest slice: {plan.smallest_slice or "none known"})'
  drafter = deployment.drafter
  draft = (model_name(deployment.draft) if deployment.draft else drafter.name if drafting.configuration(drafter) else
           'no draft model')
  name = plan.tree.name if plan.tree else 'no draft'
  head = (f'{model_name(deployment.target)} with {draft} on {deployment.chip.name} {deployment.topology}: {fits}. '
          f'{name}, batch {deployment.batch}, input {deployment.input_length}, '
          f'output {deployment.max_decode_len}. 1 GB is 1e9 bytes.\n')
  held = table(['memory of one device', ''], [
      ['weights', _gb(memory.weights)], ['caches', _gb(memory.caches)],
      ['temporaries', _gb(memory.temporaries)], ['peak', _gb(memory.peak)],
      ['the compiler allows', _gb(memory.capacity)]])
  found = [f'- {w}' for w in plan.warnings] or ['- No weight is copied, transposed or read twice.']
  if not plan.fits:
    return '\n'.join([head, held, *found, ''])
  assumed = ASSUMPTIONS.format(1e6 * deployment.assumptions.layer_seconds)
  return '\n'.join([head, held, _passes(plan), *_iteration(plan), _predicted(plan), *found, '', assumed, ''])


def _passes(plan: Plan) -> str:
  rows = [[name.replace('_', ' '), t.tokens, _gb(t.work.weights), _gb(t.work.caches),
           f'{t.work.flops / 1e9:.1f} G', f'{1e3 * t.seconds:.3f} ms', _gb(t.counted_bytes)]
          for name, t in plan.traffic.items()]
  return table(['one pass', 'tokens', 'weights', 'caches', 'operations', 'time',
                "compiler's count of bytes"], rows)


def _iteration(plan: Plan) -> list[str]:
  if plan.iteration is None:
    return []
  found = [
      f'An iteration of the decode program reads {_gb(plan.iteration.bytes_read("target"))} of the '
      f"target's weights on each device and {_gb(plan.iteration.bytes_read('draft'))} of the draft's "
      '(what the compiler keeps on the chip over the draft steps counts once), by its text.\n']
  if plan.deployment.devices > 1:
    kinds = ', '.join(f'{n} {kind}' for kind, n in sorted(plan.iteration.collectives.items()))
    found.append(f'{sum(plan.iteration.collectives.values())} collectives an iteration between the '
                 f'{plan.deployment.devices} devices: {kinds or "none"}.\n')
  return found


def _predicted(plan: Plan) -> str:
  p = plan.predicted
  if p is None:
    return ''
  rows: list[list] = [
      [f"c (draft step{', over its tokens,' if drafting.in_one_pass(plan.deployment.drafter) else ''} / target step)",
       number(p.c, 3)],
      [f'verify cost ({plan.nodes + 1} tokens / 1)', number(p.verify_cost)],
      ['alpha, given', number(p.alpha)]]
  if plan.gamma is None:
    rows += [['acceptance by rank, assumed or given',
              p.acceptance_by_rank and ', '.join(f'{a:.3f}' for a in p.acceptance_by_rank[:6]) + ', ...'],
             ['tokens a target call', number(p.tokens_per_call)]]
  rows += [['speed-up by thm 3.8 with the verify cost' if plan.gamma else 'speed-up', number(p.speed_up, suffix='X')]]
  if plan.gamma is None and p.alpha is not None:
    chain = predict(plan.deployment, 7, p.acceptance_by_rank)
    rows += [['speed-up of the chain with gamma 7', number(chain.speed_up, suffix='X')]]
  return table(['predicted', ''], [
      *rows,
      ['best gamma', p.best_gamma],
      ['tokens/s, target alone', number(p.tokens_per_second_alone, 0)],
      ['tokens/s, speculative', number(p.tokens_per_second, 0)],
      ['speculation pays less from batch', p.pays_less_from_batch]])


def _gb(size: float | None) -> str | None:
  return None if size is None else f'{size / 1e9:.3f} GB'


def beside_the_paper(chip: str = 'v4', topology: str = '1x1x1', **shape) -> list[dict]:
  """Each row of Table 2 that fits: the planner's c and speed-up beside the paper's. Sizes alone are needed."""
  rows = []
  pairs = {draft: _deployment('t5_1_1_xxl', name, chip, topology, **shape) for draft, name in PAPER_DRAFTS.items()}
  for e in paper.TABLE_2:
    at = pairs[e.draft]
    if holds(at, e.gamma):
      p = predict(at, e.gamma, e.alpha)
      rows.append({'task': e.task, 'draft': e.draft, 'temperature': e.temperature, 'gamma': e.gamma,
                   'alpha': e.alpha, 'c': p.c, 'paper_c': paper.C[e.draft], 'speed_up': p.speed_up,
                   'paper_predicted': e.predicted, 'paper_speed_up': e.speed_up, 'best_gamma': p.best_gamma})
  return rows


def papers_rows(plan: Plan) -> list[dict]:
  """`beside_the_paper` for the devices and shapes of a plan whose target is the paper's; else empty."""
  at = plan.deployment
  dtype = at.target.config.dtype
  int8_draft = at.draft is not None and at.draft.config.int8_weights
  if not plan.fits or int8_draft or at.target.config != shapes.abstract_model('t5_1_1_xxl', dtype).config:
    return []
  return beside_the_paper(at.chip.name, at.topology, batch=at.batch, input_length=at.input_length,
                          max_decode_len=at.max_decode_len, dtype=dtype, assumptions=at.assumptions, data=at.data,
                          split_draft=at.split_draft)


def paper_markdown(rows: Iterable[dict]) -> str:
  """What `beside_the_paper` found."""
  return table(
      ['task', 'draft', 'temp.', 'gamma', 'alpha', 'c', "paper's c", 'speed-up', "paper's thm 3.8",
       'paper, measured', 'best gamma'],
      [[r['task'], r['draft'], r['temperature'], r['gamma'], number(r['alpha']), number(r['c'], 3),
        number(r['paper_c']), number(r['speed_up'], 2, 'X'), number(r['paper_predicted'], 1, 'X'),
        number(r['paper_speed_up'], 1, 'X'), r['best_gamma']] for r in rows], 'll' + 'r' * 9)


def grid(target, draft, alpha: float, gammas: Sequence[int], batches: Sequence[int],
         chips: Sequence[str], **shape) -> list[dict]:
  """Predictions over gammas, batches and kinds of chip, from sizes alone.

  Each is for the smallest slice of the chip that holds the pair, the batch and the longest gamma; where none
  does, topology and what would be predicted are None. Gammas that the drafter cannot draft are left out.
  """
  rows = []
  pair = _deployment(target, draft, chips[0], '1x1', **shape)
  most = pair.most_depth or max(gammas)
  gammas = [gamma for gamma in gammas if gamma <= most] or [most]
  for chip, batch in itertools.product(chips, batches):
    on = smallest_slice(dataclasses.replace(pair, chip=get_chip(chip), batch=batch), max(gammas))
    for gamma in gammas:
      p = on and predict(on, gamma, alpha)
      rows.append({'chip': chip, 'topology': on and on.topology, 'batch': batch, 'gamma': gamma, **{
          name: p and getattr(p, name)
          for name in ('c', 'verify_cost', 'speed_up', 'tokens_per_second', 'tokens_per_second_alone')}})
  return rows


def grid_markdown(rows: Sequence[dict]) -> str:
  """Speed-ups: a row a chip and batch, a column a gamma."""
  gammas = sorted({r['gamma'] for r in rows})
  cells = {}
  for r in rows:
    cells.setdefault((r['chip'], r['topology'], r['batch']), {})[r['gamma']] = r
  return table(['chip', 'smallest slice', 'batch', 'tokens/s alone', *(f'gamma {g}' for g in gammas)],
               [[*key, number(of_gamma[gammas[0]]['tokens_per_second_alone'], 0),
                 *(number(of_gamma[g]['speed_up'], 2, 'X') for g in gammas)] for key, of_gamma in cells.items()],
               'll' + 'r' * (2 + len(gammas)))


def plot(rows: Sequence[dict], path: str) -> None:
  """Speed-up over the batch, a panel a chip and a line a gamma."""
  from matplotlib.figure import Figure
  chips = list(dict.fromkeys(r['chip'] for r in rows))
  figure = Figure(figsize=(3 * len(chips) + 1, 3), layout='constrained')
  for axes, chip in zip(figure.subplots(1, len(chips), sharey=True, squeeze=False)[0], chips):
    for gamma in sorted({r['gamma'] for r in rows}):
      points = [(r['batch'], r['speed_up']) for r in rows
                if (r['chip'], r['gamma']) == (chip, gamma) and r['speed_up'] is not None]
      axes.plot([b for b, _ in points], [s for _, s in points], marker='.', label=f'gamma {gamma}')
    axes.axhline(1, color='grey', linewidth=0.8)
    axes.set(title=chip, xscale='log', xlabel='batch')
  figure.axes[0].set_ylabel('predicted speed-up')
  figure.axes[0].legend()
  figure.savefig(path, dpi=150)


def _deployment(target, draft, chip, topology, batch=1, input_length=128, max_decode_len=128,
             dtype='bfloat16', draft_dtype=None, **more) -> Deployment:
  target = shapes.abstract_model(target, dtype)
  return Deployment(target=target, drafter=shapes.abstract_drafter(draft, draft_dtype or dtype, target),
                 chip=get_chip(chip), topology=topology, batch=batch, input_length=input_length,
                 max_decode_len=max_decode_len, **more)
