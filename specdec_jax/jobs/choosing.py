"""gamma = 'auto' and tree = 'auto': the shape of the draft by what the pair and the machine are measured to give.

What is measured stands in the texts of the first inputs: alpha, or acceptance by rank; c and the verify cost are
timed. Since times differ from one measurement to the next, a job chooses once: process 0 does, the record is kept in
the job's directory, and restarts and other processes take it from there.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from specdec_jax import checks
from specdec_jax.analysis import alpha as alpha_lib, cost as cost_lib, expected, ranks as ranks_lib, reliability, theory
from specdec_jax.data.examples import Example
from specdec_jax.errors import SettingError
from specdec_jax.jobs import claims, texts
from specdec_jax.jobs.batching import Batch, middling
from specdec_jax.jobs.inputs import InputOptions, Inputs
from specdec_jax.jobs.methods import Method
from specdec_jax.jobs.progress import Progress
from specdec_jax.model import Model
from specdec_jax.notes import note
from specdec_jax.parallel import hosts
from specdec_jax.tree import Tree

AUTO = 'auto'
EXAMPLES = 16  # that are decoded first
GAMMAS = (1, 4, 8, 16)  # draft lengths that are timed; between them costs go in straight lines
NODES = (3, 7, 15, 31, 63)  # of the trees that are timed
MOST_DEPTH = 8


@dataclasses.dataclass(frozen=True)
class Choice:
  """What was chosen.

  Attributes:
    tree: of the draft, a chain where gamma was to be chosen; None where plain decoding is faster.
    reason: in words, with the figures.
  """

  tree: Tree | None
  reason: str

  @property
  def name(self) -> str:
    return self.tree.name if self.tree else 'plain decoding'

  @property
  def record(self) -> dict:
    """JSON-ready."""
    return {'parents': self.tree and list(self.tree.parents), 'reason': self.reason}

  @classmethod
  def of(cls, record: dict) -> 'Choice':
    """From a `record`."""
    parents = record['parents']
    return cls(Tree(tuple(parents)) if parents else None, record['reason'])

  def settle(self, method: Method) -> Method:
    """The method with this draft; without a drafter where plain decoding is faster."""
    if self.tree is None:
      return method.alone
    return dataclasses.replace(method, auto=None, tree=self.tree)


def asked(gamma: Any, tree: Any) -> dict[str, Any]:
  """The fields of a `Method` for a run's settings gamma and tree, either of which may be 'auto'."""
  is_auto = lambda value: isinstance(value, str) and value == AUTO
  if (is_auto(gamma) and tree is not None) or (is_auto(tree) and gamma is not None):
    raise SettingError(f'gamma is {checks.shown(gamma)} and tree is {checks.shown(tree)}; give one of them.')
  return {'gamma': None if is_auto(gamma) else gamma, 'tree': None if is_auto(tree) else tree,
          'auto': 'gamma' if is_auto(gamma) else 'tree' if is_auto(tree) else None}


def settled(target: Model, method: Method, options: InputOptions, examples: Iterable[Example],
            output_dir: str) -> Method:
  """A job's method with nothing left to choose; all of its processes and restarts get the same one.

  Args:
    target, method, options, examples: of the job.
    output_dir: claimed by this process.
  """
  if method.auto is None:
    return method
  record = None
  if hosts.index() == 0:
    record = claims.kept(output_dir, 'chosen')
    if record is None:
      # One text of each and without prefixes, since what is measured after it reads whole texts.
      plain = [dataclasses.replace(e, target_prefix=None) for e in itertools.islice(examples, EXAMPLES)]
      options = dataclasses.replace(options, max_target_prefix_len=0)
      batches = first_batches(options, options.encode(target, plain))
      record = choose(target, dataclasses.replace(method, num_samples=1), batches).record
      claims.keep(output_dir, 'chosen', record)
  choice = Choice.of(hosts.gather('chosen', record)[0])
  note(f"{method.auto} = 'auto': {choice.name}. {choice.reason}")
  return choice.settle(method)


def first_batches(options: InputOptions, inputs: Inputs) -> list[Batch]:
  """Of the first examples, as the job would batch them."""
  return options.batches(inputs, range(min(EXAMPLES, len(inputs.rows))))


def choose(target: Model, method: Method, batches: Sequence[Batch]) -> Choice:
  """Measures and chooses.

  Args:
    target: of the job.
    method: whose `auto` says what to choose.
    batches: of the first inputs.
  """
  with Progress(None, f'choosing the {method.auto}', 'step') as progress:
    progress.next('decoding the first inputs')
    results = [method.alone(target, batch) for batch in batches]
    found = texts.by_length(batches, results)
    lengths = np.concatenate([t.lengths for t in found])
    time = lambda shapes: cost_lib.measure(
        target, method.drafter, middling(batches).tokens, shapes, method.sampling, max_decode_len=method.max_decode_len,
        position=min(int(lengths.mean()) // 2, method.max_decode_len - 1), tell=progress.next)
    most_depth = MOST_DEPTH if method.auto == 'tree' else GAMMAS[-1]
    most_depth = min(getattr(method.drafter, 'most_depth', most_depth), most_depth)
    progress.next('acceptance')
    of_texts: dict[str, Any] = dict(sampling=method.sampling, logits_processors=method.logits_processors)
    if method.auto == 'gamma':
      betas = [alpha_lib.text_betas(target, method.drafter, t.tokens, t.emitted, t.lengths, lenience=method.lenience,
                                    prompt_lengths=t.prompt_lengths, **of_texts) for t in found]
      alpha = alpha_lib.estimate(np.concatenate(betas), lengths)
      return _gamma(alpha, time([gamma for gamma in GAMMAS if gamma < most_depth] + [min(GAMMAS[-1], most_depth)]))
    ranks = ranks_lib.joined([
        ranks_lib.of_texts(target, method.drafter, t.tokens, t.emitted, t.lengths, seed=method.seed + i,
                           prompt_lengths=t.prompt_lengths, **of_texts) for i, t in enumerate(found)])
    by_rank = ranks.acceptance
    shapes = list(dict.fromkeys(theory.best_tree(by_rank, nodes, most_depth) for nodes in NODES))
    return _tree(by_rank, int(lengths.sum()), time(shapes), most_depth)


def _gamma(alpha: alpha_lib.Alpha, costs: dict) -> Choice:
  """By thm 3.8 with the verify cost."""
  measured = [(c.gamma, c.c, c.verify_cost) for c in costs.values()]
  gammas, speeds = expected.speed_ups(alpha.alpha, measured)
  best = int(np.argmax(speeds))
  gamma, speed = int(gammas[best]), float(speeds[best])
  c = expected.between([(g, c) for g, c, _ in measured])(gamma)
  verify_cost = expected.between([(0, 1), *((g, cost) for g, _, cost in measured)])(gamma)
  figures = (f'alpha {alpha.alpha:.3f} over {alpha.num_tokens} tokens, c {c:.3f} and verify cost {verify_cost:.2f} at '
             f'gamma {gamma}')
  return Choice(Tree.chain(gamma) if speed > 1 else None, _reason(figures, speed, costs))


def _tree(by_rank: tuple[float, ...], tokens: int, costs: dict, most_depth: int) -> Choice:
  """By the tokens that a tree is expected to give, over its draft passes and its verify pass."""
  verify_cost = expected.between([(1, 1), *((c.nodes + 1, c.verify_cost) for c in costs.values())])
  level = expected.between([(c.nodes, c.c) for c in costs.values()])
  trees = {theory.best_tree(by_rank, nodes, most_depth, level(nodes), verify_cost) for nodes in NODES}
  cost = lambda tree: (tree.depth, level(tree.num_nodes), verify_cost(tree.num_nodes + 1))
  speed = lambda tree: float(theory.speed_up(theory.expected_tokens(by_rank, tree=tree), *cost(tree)))
  best = max(trees, key=lambda tree: (speed(tree), -tree.num_nodes))
  _, c, verify = cost(best)
  figures = (f"accepted by rank {', '.join(f'{x:.3f}' for x in by_rank[:4])} over {tokens} tokens, {c:.3f} a level and "
             f'verify cost {verify:.2f} with {best.name}')
  return Choice(best if speed(best) > 1 else None, _reason(figures, speed(best), costs))


def _reason(figures: str, speed: float, costs: dict) -> str:
  spread = max((c.spread or 0.0 for c in costs.values()), default=0.0)
  unsure = f'; repeats of the timings differ by {spread:.0%}' if spread > reliability.MOST_SPREAD else ''
  conclusion = 'expected' if speed > 1 else 'at best, so that plain decoding is faster'
  return f'{figures}: {speed:.2f}X {conclusion}{unsure}.'
