"""The runs there are: a line each, which gin, the command line and the launch of a run share.

A run is a function of its own name in a module of its own name, called with the output directory; gin fills in
its other arguments. To add one, write the module and add its line here.
"""

import dataclasses
import importlib
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Run:
  """What is known of a run without importing it.

  Attributes:
    name: of the module in runs/, of its function, and of the subcommand.
    summary: one line for a list of runs.
    blocks: of gin/, that the subcommand puts together: 'inputs', 'drafter' or 'drafters', 'sampling' or 'samplings'.
    needs_drafter: whether it makes no sense without a draft.
    several_hosts: whether several processes may share it.
    keeps_results: whether it writes results; the subcommand of one that does not needs no --output_dir.
    on_cpu: whether it needs no accelerator, and should not look for one.
    needs: names of other configurables whose settings it reads itself.
  """

  name: str
  summary: str
  blocks: tuple[str, ...] = ()
  needs_drafter: bool = True
  several_hosts: bool = False
  keeps_results: bool = True
  on_cpu: bool = False
  needs: tuple[str, ...] = ()

  @property
  def gin_name(self) -> str:
    """Of its block gin/runs/NAME.gin."""
    return self.needs[0] if self.needs else self.name

  @property
  def function(self) -> Callable[..., object]:
    return getattr(importlib.import_module(f'specdec_jax.runs.{self.name}'), self.name)


RUNS = {run.name: run for run in (
    Run('decode', 'Decode every input into predictions.jsonl.', ('inputs', 'drafter', 'sampling'), needs_drafter=False,
        several_hosts=True),
    Run('precompile', "Compile a decode job's programs ahead of it, and decode nothing.",
        ('inputs', 'drafter', 'sampling'), needs_drafter=False, several_hosts=True, needs=('decode',)),
    Run('score', 'Score given outputs: log-likelihoods, and which of several is the likeliest.', ('inputs',),
        needs_drafter=False, several_hosts=True),
    Run('compare', 'Time the target alone and speculative decoding over the same inputs, and say why.',
        ('inputs', 'drafter', 'samplings')),
    Run('beyond', "Count and time draft trees and block verification beside the paper's chain.",
        ('inputs', 'drafter', 'samplings')),
    Run('check', "Check that a pair's text is the target's own, with good and bad drafts.", ('inputs',)),
    Run('complete', 'Complete one text and print it.', ('drafter', 'sampling'), needs_drafter=False,
        keeps_results=False),
    Run('alphas', "Measure alpha of several drafters over the target's own texts.",
        ('inputs', 'drafters', 'samplings')),
    Run('drafters', 'Time several drafters for one target over the same inputs.', ('inputs', 'drafters', 'samplings')),
    Run('beam', 'Time plain and speculative beam search over the same inputs.', ('inputs', 'drafter')),
    Run('throughput', 'Time decode jobs batch after batch and with rows filled again, by batch size.',
        ('inputs', 'drafter', 'sampling'), needs_drafter=False),
    Run('figures', "Draw the paper's figures 1 to 5 for a pair of models.", ('inputs', 'drafter', 'sampling')),
    Run('plan', 'Compile for a TPU that need not be there: memory, traffic, predicted speed.',
        keeps_results=False, on_cpu=True),
    Run('plan_trees', 'Predict draft trees for a TPU over drafts, chips, batches and sizes.',
        keeps_results=False, on_cpu=True),
    Run('train', 'Train, fine-tune or distil a model.'),
    Run('train_heads', "Train heads that draft from a frozen target's hidden states."),
    Run('fit_ngram', 'Count texts into a unigram or bigram table, which drafts.', ('inputs',)),
    Run('fit_vocabulary', 'Fit the vocabulary of a decoder-only model.', ('inputs',)),
)}


def several_hosts(function: Callable[..., object]) -> bool:
  """Whether several processes may share a run; False for one that is not listed here."""
  run = RUNS.get(function.__name__)
  return run is not None and run.several_hosts
