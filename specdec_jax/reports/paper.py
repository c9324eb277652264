"""The figures printed in arXiv 2211.17192 [Leviathan et al.], to stand beside ours.

Walltimes are its T5-XXL (11B), batch 1 on one TPU v4, against T5X's own decoding.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Example:
  """A row of Table 1: what thms 3.11 and 3.8 give where a draft costs nothing (c = c_hat = 0)."""

  alpha: float
  gamma: int
  operations: float
  speed_up: float


@dataclasses.dataclass(frozen=True)
class Experiment:
  """A row of Tables 2 and 4.

  Attributes:
    task: 'EnDe' (translation) or 'CNN/DM' (summarization).
    draft: M_q; `C` has its c.
    temperature, gamma, alpha: as in Table 2.
    speed_up: measured [tables 2 and 4].
    predicted: by thm 3.8 [table 4].
  """

  task: str
  draft: str
  temperature: float
  gamma: int
  alpha: float
  speed_up: float
  predicted: float


@dataclasses.dataclass(frozen=True)
class Acceptance:
  """A row of Table 3: alpha of a draft for a target."""

  target: str
  task: str
  draft: str
  temperature: float
  alpha: float


@dataclasses.dataclass(frozen=True)
class Lenient:
  """A cell of Table 5 [app. A.5]: alpha with lenience, E[sum_x min(p / l, q)].

  Attributes:
    draft, temperature, lenience, alpha: English-German; at temperature 0 the
      condition is on p before the argmax.
    gamma, c, speed_up: with which the text reports which speed-up; None where it does not.
  """

  draft: str
  temperature: float
  lenience: float
  alpha: float
  gamma: int | None = None
  c: float | None = None
  speed_up: float | None = None


C = {'T5-small': 0.02, 'T5-base': 0.04, 'T5-large': 0.11}  # [table 4]

TABLE_1 = (
    Example(0.6, 2, 1.53, 1.96),
    Example(0.7, 3, 1.58, 2.53),
    Example(0.8, 2, 1.23, 2.44),
    Example(0.8, 5, 1.63, 3.69),
    Example(0.9, 2, 1.11, 2.71),
    Example(0.9, 10, 1.60, 6.86),
)

TABLE_2 = TABLE_4 = (
    Experiment('EnDe', 'T5-small', 0, 7, 0.75, 3.4, 3.2),
    Experiment('EnDe', 'T5-base', 0, 7, 0.80, 2.8, 3.3),
    Experiment('EnDe', 'T5-large', 0, 7, 0.82, 1.7, 2.5),
    Experiment('EnDe', 'T5-small', 1, 7, 0.62, 2.6, 2.3),
    Experiment('EnDe', 'T5-base', 1, 5, 0.68, 2.4, 2.4),
    Experiment('EnDe', 'T5-large', 1, 3, 0.71, 1.4, 2.0),
    Experiment('CNN/DM', 'T5-small', 0, 5, 0.65, 3.1, 2.4),
    Experiment('CNN/DM', 'T5-base', 0, 5, 0.73, 3.0, 2.6),
    Experiment('CNN/DM', 'T5-large', 0, 3, 0.74, 2.2, 2.0),
    Experiment('CNN/DM', 'T5-small', 1, 5, 0.53, 2.3, 1.9),
    Experiment('CNN/DM', 'T5-base', 1, 3, 0.55, 2.2, 1.8),
    Experiment('CNN/DM', 'T5-large', 1, 3, 0.56, 1.7, 1.6),
)


def _table_3():
  """(target, task, draft, alpha at temperature 0, at 1)."""
  t5, gpt, lamda = 'T5-XXL (11B)', 'GPT-like (97M)', 'LaMDA (137B)'
  for target, task, draft, *alphas in (
      (t5, 'EnDe', 'unigram', 0.08, 0.07),
      (t5, 'EnDe', 'bigram', 0.20, 0.19),
      (t5, 'EnDe', 'T5-small', 0.75, 0.62),
      (t5, 'EnDe', 'T5-base', 0.80, 0.68),
      (t5, 'EnDe', 'T5-large', 0.82, 0.71),
      (t5, 'CNN/DM', 'unigram', 0.13, 0.08),
      (t5, 'CNN/DM', 'bigram', 0.23, 0.16),
      (t5, 'CNN/DM', 'T5-small', 0.65, 0.53),
      (t5, 'CNN/DM', 'T5-base', 0.73, 0.55),
      (t5, 'CNN/DM', 'T5-large', 0.74, 0.56),
      (gpt, 'lm1b', 'unigram', 0.03, 0.03),
      (gpt, 'lm1b', 'bigram', 0.05, 0.05),
      (gpt, 'lm1b', 'GPT-like (6M)', 0.88, 0.89),
      (lamda, 'dialogue, top-40', 'LaMDA (100M)', 0.61, 0.57),
      (lamda, 'dialogue, top-40', 'LaMDA (2B)', 0.71, 0.71),
      (lamda, 'dialogue, top-40', 'LaMDA (8B)', 0.75, 0.74)):
    for temperature, alpha in enumerate(alphas):
      yield Acceptance(target, task, draft, float(temperature), alpha)


TABLE_3 = tuple(_table_3())
BIGRAM_ENDE = {'gamma': 3, 'speed_up': 1.25}  # what a bigram table gains for T5-XXL [§4.2]


def _table_5():
  """(draft, temperature, gamma, c, alphas by lenience, speed-ups by lenience or none)."""
  none = (None,) * 4
  for draft, temperature, gamma, c, alphas, speed_ups in (
      ('unigram', 1.0, None, None, (0.07, 0.10, 0.11, 0.16), none),
      ('bigram', 1.0, None, None, (0.19, 0.23, 0.25, 0.32), none),
      ('T5-small', 1.0, None, 0.015, (0.62, 0.71, 0.76, 0.84), (2.5, 3.1, 3.6, 5.0)),
      ('T5-base', 1.0, None, None, (0.68, 0.80, 0.83, 0.90), none),
      ('T5-small', 0.0, 8, None, (0.75, 0.75, 0.80, 0.87), (3.3, 3.3, 3.9, 4.9))):
    for lenience, alpha, speed_up in zip((1.0, 0.5, 0.3, 0.1), alphas, speed_ups):
      yield Lenient(draft, temperature, lenience, alpha, gamma, c, speed_up)


TABLE_5 = tuple(_table_5())
