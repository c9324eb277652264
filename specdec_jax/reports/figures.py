"""The paper's figures 2 to 5 and Table 2's plot, from theory, measured times and compare reports."""

import itertools
from collections.abc import Sequence

import numpy as np

from specdec_jax.analysis import expected, theory
from specdec_jax.analysis.cost import Cost
from specdec_jax.reports import paper
from specdec_jax.reports.measured import Measured
from specdec_jax.reports.words import sampling_name
from specdec_jax.sampling import Sampling

_ALPHAS = np.linspace(0, 1, 401)[:-1]
_MARKERS = 'osD^v<>P*X'
_ENCODER, _DRAFT, _TARGET = '#8d6e63', '#f9a825', '#1565c0'


def expected_tokens(gammas: Sequence[int] = (1, 3, 5, 7, 10), measured: Sequence[Measured] = ()):
  """Figure 2: eq. 1 over alpha, with measured tokens per call on it. A matplotlib `Figure`."""
  gammas = _with_measured(gammas, measured)
  fig, (axes,) = _figure(1)
  for gamma, colour in _coloured(gammas):
    axes.plot(_ALPHAS, theory.expected_tokens(_ALPHAS, gamma), color=colour,
              label=f'$\\gamma$ = {gamma}')
    _points(axes, [(m.alpha, m.tokens_per_call) for m in measured if m.gamma == gamma], colour)
  axes.plot(_ALPHAS, theory.oracle_tokens(_ALPHAS), color='0.6', linestyle=':',
            label='an oracle for $\\gamma$')
  axes.set(xlabel='$\\alpha$', ylabel='tokens per target call [eq. 1]', xlim=(0, 1),
           ylim=(1, max(gammas) + 1))
  _legend(axes, measured)
  return fig


def optimal_gamma(cs: Sequence[float] = (0.01, 0.02, 0.05, 0.1, 0.2),
                  measured: Sequence[Measured] = ()):
  """Figure 3: the best gamma over alpha, and the fastest where several were measured, each with its c."""
  from matplotlib.ticker import MaxNLocator
  fig, (axes,) = _figure(1)
  for c, colour in _coloured(cs):
    axes.step(_ALPHAS, theory.optimal_gamma(_ALPHAS, c), where='mid', color=colour,
              label=f'$c$ = {c:g}')
  best = [max(ms, key=lambda m: m.speed_up) for ms in _by_setting(measured).values() if len(ms) > 1]
  for m, marker in zip(best, itertools.cycle(_MARKERS)):
    axes.plot(m.alpha, m.gamma, marker, color='black', markeredgecolor='black', zorder=4,
              label=f'fastest measured, {_setting(m, best)}, $c$ = {m.c:.2f}')
  top = max([20, *(m.gamma + 2 for m in best)])
  axes.yaxis.set_major_locator(MaxNLocator(integer=True))
  axes.set(xlabel='$\\alpha$', ylabel='best $\\gamma$ [§3.5]', xlim=(0, 1), ylim=(-0.5, top))
  axes.legend(frameon=False, fontsize=8)
  return fig


def speed_up_and_operations(gammas: Sequence[int] = (3, 5, 7, 10),
                            measured: Sequence[Measured] = ()):
  """Figure 4: thms 3.8 and 3.11 over alpha with c = c_hat = 0.

  Where something was measured its operations stand on the right, and a third panel has its speed-up over the
  one that thm 3.8 gives with the measured c and verify cost.
  """
  gammas = _with_measured(gammas, measured)
  fig, (left, right, *third) = _figure(3 if measured else 2)
  colours = dict(_coloured(gammas))
  for gamma, colour in colours.items():
    label = f'$\\gamma$ = {gamma}'
    left.plot(_ALPHAS, theory.walltime_improvement(_ALPHAS, gamma, 0), color=colour, label=label)
    right.plot(_ALPHAS, theory.operations_increase(_ALPHAS, gamma, 0), color=colour, label=label)
    _points(right, [(m.alpha, m.operations) for m in measured if m.gamma == gamma], colour)
  left.set(xlabel='$\\alpha$', ylabel='speed-up [thm 3.8]', xlim=(0, 1), ylim=(0, max(gammas) + 1))
  right.set(xlabel='$\\alpha$', ylabel='operations [thm 3.11]', xlim=(0, 1),
            ylim=(0, max(gammas) + 1))
  _legend(left, ())
  _legend(right, measured)
  for axes in third:
    _measured_over_expected(axes, measured, colours)
  return fig


def _measured_over_expected(axes, measured: Sequence[Measured], colours):
  """Speed-ups over those that the measured costs let expect: a colour a gamma, a marker a setting."""
  of_setting = _by_setting(measured)
  for ms, marker in zip(of_setting.values(), itertools.cycle(_MARKERS)):
    axes.plot([], [], marker, color='0.5', markeredgecolor='black', label=_setting(ms[0], measured))
    for m in ms:
      axes.plot(m.predicted_with_verify_cost, m.speed_up, marker, color=colours[m.gamma], markeredgecolor='black')
  for gamma in sorted({m.gamma for m in measured}):
    axes.plot([], [], 's', color=colours[gamma], label=f'$\\gamma$ = {gamma}')
  values = [x for m in measured for x in (m.predicted_with_verify_cost, m.speed_up)]
  margin = 0.1 * (max(values) - min(values)) + 0.05
  limits = min(values) - margin, max(values) + margin
  axes.axline((1, 1), slope=1, color='0.6', linewidth=0.8)
  axes.set(xlabel='thm 3.8 with measured costs', ylabel='speed-up measured', xlim=limits, ylim=limits)
  axes.legend(frameon=False, fontsize=8)


def speed_up_over_gamma(measured: Sequence[Measured], also: Sequence[paper.Experiment] = ()):
  """Table 2 as a plot, a panel a task and temperature: expected, measured and printed speed-ups.

  Args:
    measured: the experiments; each with the paper's row where it has one.
    also: rows of the paper to draw in the panels of their temperature.
  """
  panels = list(dict.fromkeys((m.task, m.temperature) for m in measured))
  fig, panel_axes = _figure(len(panels))
  for axes, panel in zip(panel_axes, panels):
    here = [m for m in measured if (m.task, m.temperature) == panel]
    for name, colour in _coloured(list(dict.fromkeys(m.name for m in here))):
      ours = [m for m in here if m.name == name]
      axes.plot(*expected_speed_ups(ours), color=colour, label=f'{name}, thm 3.8 with the verify cost')
      for marker, words, points in (
          ('o', 'measured', [(m.gamma, m.speed_up) for m in ours]),
          ('x', 'over T5X', [(m.gamma, m.speed_up_over_t5x) for m in ours if m.speed_up_over_t5x]),
          ('s', 'paper', [(m.printed.gamma, m.printed.speed_up) for m in ours if m.printed])):
        if points:
          axes.plot(*zip(*points), marker, color=colour, fillstyle='none', label=f'{name}, {words}')
    for row in also:
      if row.temperature == panel[1]:
        axes.plot(row.gamma, row.speed_up, 's', color='0.4', fillstyle='none',
                  label=f'paper: {row.task}, {row.draft}')
    axes.axhline(1, color='0.6', linewidth=0.5)
    axes.set(title=f'{panel[0]}, temperature {panel[1]:g}', xlabel='$\\gamma$', ylabel='speed-up')
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)
  return fig


def expected_speed_ups(measured: Sequence[Measured]):
  """`analysis.expected.speed_ups` of one draft, with its mean alpha."""
  alpha = sum(m.alpha for m in measured) / len(measured)
  return expected.speed_ups(alpha, [(m.gamma, m.c, m.verify_cost) for m in measured])


def acceptance_by_position(series: Sequence[tuple[str, Sequence[float], float | None]]):
  """Acceptance rate of draft tokens by their place in the block.

  Independent and equal betas [§3.1] would give alpha to the power of the place, which is dotted.

  Args:
    series: label, acceptance rate by place, and alpha (None: its powers are not drawn).
  """
  fig, (axes,) = _figure(1)
  longest = max(len(rates) for _, rates, _ in series)
  for (label, rates, alpha), colour in _coloured(series):
    places = np.arange(1, len(rates) + 1)
    axes.plot(places, rates, 'o-', color=colour, label=label)
    if alpha is not None:
      axes.plot(places, alpha ** places, ':', color=colour, label=f'powers of $\\alpha$ = {alpha:.2f}')
  axes.set(xlabel='place in the block', ylabel='acceptance rate', ylim=(0, 1.02))
  axes.set_xticks(range(1, longest + 1))
  axes.legend(frameon=False, fontsize=8)
  return fig


def beyond(result: dict):
  """Tokens a call and speed-ups over the nodes of the draft, of a `beyond` run's report: chains squares, trees dots."""
  fig, (tokens, speed) = _figure(2)
  for measured, colour in _coloured(result['samplings']):
    name = sampling_name(Sampling(**measured['sampling']))
    rows = [row for row in measured['drafts'] if row['verification'] == 'token']
    trees, chains = [[row for row in rows if (row['nodes'] > row['levels']) == of_tree] for of_tree in (True, False)]
    for axes, lines in ((tokens, (('tokens_per_call', '-', 'counted'), ('walked_tokens_per_call', ':', 'walked'))),
                        (speed, (('speed_up', '-', 'here'), ('speed_up_on_v4', '--', 'T5-XXL on a v4, predicted')))):
      for key, style, words in lines:
        axes.plot([row['nodes'] for row in trees], [row[key] for row in trees], 'o' + style, color=colour,
                  label=f'{name}, {words}', markersize=4)
        axes.plot([row['nodes'] for row in chains], [row[key] for row in chains], 's' + style, color=colour,
                  fillstyle='none', markersize=5)
  nodes = sorted({row['nodes'] for m in result['samplings'] for row in m['drafts']})
  for axes, label in ((tokens, 'tokens per target call'), (speed, 'speed-up')):
    axes.set_xscale('log', base=2)
    axes.set_xticks(nodes, [str(n) for n in nodes])
    axes.minorticks_off()
    axes.set(xlabel='nodes of the draft', ylabel=label)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)
  speed.axhline(1, color='0.6', linewidth=0.5)
  return fig


def bars(panels: Sequence[tuple[str, Sequence[tuple[str, float]]]], label: str):
  """Panels of bars side by side, the value at the end of each: (title, [(name, value), ...])."""
  rows = max(len(named) for _, named in panels)
  fig, all_axes = _figure(len(panels), width=6.0 * len(panels), height=0.8 + 0.32 * rows)
  for axes, (title, named) in zip(all_axes, panels):
    values = [value for _, value in named]
    axes.barh(range(len(named)), values, color=[_TARGET if 'specdec_jax' in name else '0.65' for name, _ in named])
    for y, value in enumerate(values):
      axes.annotate(f' {value:.0f}', (value, y), va='center', fontsize=8)
    axes.set_yticks(range(len(named)), [name for name, _ in named], fontsize=8)
    axes.set(title=title, xlabel=label, ylim=(rows - 0.4, -0.6))
    axes.set_xlim(0, 1.15 * max(values))
  return fig


def chip(verify: Sequence[tuple[int, float]], decodes: Sequence[tuple[str, float, float | None]]):
  """A chip's verify cost over the tokens of a pass, and speed-ups beside the paper's: (name, ours, theirs or None)."""
  fig, (left, right) = _figure(2, width=11, height=max(3.4, 0.8 + 0.32 * len(decodes)))
  left.plot(*zip(*verify), 'o-', color=_TARGET)
  left.set_xscale('log', base=2)
  left.set_xticks([n for n, _ in verify], [str(n) for n, _ in verify])
  left.minorticks_off()
  left.set(xlabel='tokens of a pass', ylabel='in one-token passes', ylim=(0, 1.1 * max(cost for _, cost in verify)))
  right.barh(range(len(decodes)), [ours for _, ours, _ in decodes], color=_TARGET, label='here, synthetic draft')
  printed = [(y, theirs) for y, (_, _, theirs) in enumerate(decodes) if theirs is not None]
  right.plot([t for _, t in printed], [y for y, _ in printed], 'D', color=_DRAFT, markeredgecolor='black',
             label='the paper, TPU v4')
  right.set_yticks(range(len(decodes)), [name for name, _, _ in decodes], fontsize=8)
  right.set(xlabel='speed-up', ylim=(len(decodes) - 0.4, -0.6))
  right.legend(frameon=False, fontsize=8)
  return fig


def timeline(decodes: Sequence[tuple[Cost, int]], tokens: int):
  """Figure 5: encoder, draft and target calls in time, for each draft and for plain decoding.

  Every call has its measured median time; how many there were comes from real decodes.

  Args:
    decodes: times and number of iterations of a decode with each gamma or tree.
    tokens: length of the same text, decoded without a draft.
  """
  title = lambda cost: f'$\\gamma$ = {cost.gamma}' if cost.nodes == cost.gamma else f'{cost.nodes} nodes'
  rows = [(title(cost), calls(cost, iterations)) for cost, iterations in decodes]
  rows.append(('plain', plain_calls(decodes[0][0], tokens)))
  fig, (axes,) = _figure(1, width=9, height=0.6 + 0.75 * len(rows))
  colours = {'encoder': _ENCODER, 'draft': _DRAFT, 'target': _TARGET}
  for y, (_, spans) in enumerate(rows):
    for name, colour in colours.items():
      bars = [(1e3 * start, 1e3 * length) for kind, start, length in spans if kind == name]
      axes.broken_barh(bars, (y - 0.35, 0.7), facecolors=colour, edgecolors='white',
                       linewidth=0.2, label=f'{name} call' if not y else None)
    end = 1e3 * sum(spans[-1][1:])
    axes.annotate(f' {end:.0f} ms', (end, y), va='center', fontsize=8)
  axes.set(yticks=range(len(rows)), yticklabels=[name for name, _ in rows], xlabel='ms',
           ylim=(len(rows) - 0.4, -0.6))
  axes.set_xlim(0, 1.1 * max(1e3 * sum(spans[-1][1:]) for _, spans in rows))
  axes.legend(frameon=False, fontsize=8, ncols=3, loc='lower center', bbox_to_anchor=(0.5, 1.0))
  return fig


def calls(cost: Cost, iterations: int) -> list[tuple[str, float, float]]:
  """(what, start, length) of a speculative decode's calls, in seconds."""
  iteration = [('draft', cost.draft_step)] * cost.gamma + [('target', cost.verify_pass)]
  return _after_one_another([('encoder', cost.target_encoder), ('encoder', cost.draft_encoder),
                             *iteration * iterations])


def plain_calls(cost: Cost, tokens: int) -> list[tuple[str, float, float]]:
  """The same of a decode without a draft."""
  return _after_one_another([('encoder', cost.target_encoder),
                             *[('target', cost.target_step)] * tokens])


def save(fig, path: str) -> None:
  """Writes a figure as .png or .svg; the same figure gives the same bytes."""
  import matplotlib
  with matplotlib.rc_context({'svg.hashsalt': 'specdec_jax', 'svg.fonttype': 'none'}):
    fig.savefig(path, dpi=120, metadata={'Date': None} if path.endswith('.svg') else None)


def _by_setting(measured: Sequence[Measured]) -> dict[tuple, list[Measured]]:
  """Those that differ in gamma alone, together."""
  found = {}
  for m in measured:
    found.setdefault((m.name, m.temperature), []).append(m)
  return found


def _setting(m: Measured, among: Sequence[Measured]) -> str:
  """The temperature, and the draft where others have another."""
  drafts = {other.name for other in among}
  return f'temperature {m.temperature:g}' + (f', {m.name}' if len(drafts) > 1 else '')


def _after_one_another(parts):
  start, placed = 0.0, []
  for name, length in parts:
    placed.append((name, start, length))
    start += length
  return placed


def _figure(columns: int, width: float | None = None, height: float = 3.4):
  from matplotlib.figure import Figure  # not pyplot: no window, no global state
  fig = Figure(figsize=(width or 4.8 * columns, height), layout='constrained')
  axes = fig.subplots(1, columns, squeeze=False)[0]
  for one in axes:
    one.spines[['top', 'right']].set_visible(False)
  return fig, axes


def _coloured(items):
  import matplotlib
  colours = matplotlib.colormaps['viridis'](np.linspace(0, 0.85, len(items)))
  return zip(items, map(tuple, colours))


def _with_measured(gammas, measured):
  return sorted({*gammas, *(m.gamma for m in measured)})


def _points(axes, points, colour):
  if points:
    axes.plot(*zip(*points), 'o', color=colour, markeredgecolor='black', zorder=4)


def _legend(axes, measured, words='measured'):
  if measured:
    axes.plot([], [], 'o', color='0.3', markeredgecolor='black', label=words)
  axes.legend(frameon=False, fontsize=8)
