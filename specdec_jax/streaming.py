"""`sd.stream`: one text as it is accepted, an event an iteration."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Int

from specdec_jax.data.byte_vocabulary import ByteVocabulary
from specdec_jax.decoding import decode_steps, inputs
from specdec_jax.drafters.interface import Drafter
from specdec_jax.errors import SettingError
from specdec_jax.model import Model
from specdec_jax.reports import live
from specdec_jax.reports.trace import ACCEPTED, BONUS, CORRECTION, REJECTED, Iteration, iteration
from specdec_jax.results import Result, Stats, Status
from specdec_jax.sampling import Sampling
from specdec_jax.tree import Tree

_BYTE = re.compile('<0x[0-9A-F]{2}>$')  # SentencePiece's pieces of one byte
_BROKEN = '\ufffd'  # what stands for bytes that are no whole character


@dataclasses.dataclass(frozen=True, kw_only=True)
class Event(Iteration):
  """One iteration: its tokens, see `Iteration`, and what they are as text.

  Attributes:
    number: of the iteration, from 1.
    accepted_text: of the accepted draft tokens. Text waits for a later event where the tokens so far end within a
      character.
    rejected_texts: of each candidate that was refused; no part of the text.
    next_text: of the target's own token.
    status: after this iteration; `Status.RUNNING` before the last.
    stats: of the row so far, see `Stats`.
  """

  number: int
  accepted_text: str
  rejected_texts: tuple[str, ...]
  next_text: str
  status: Status
  stats: Stats

  @property
  def text(self) -> str:
    """What this iteration adds to the text."""
    return self.accepted_text + self.next_text

  @property
  def done(self) -> bool:
    """Whether this is the last."""
    return self.status != Status.RUNNING

  def parts(self) -> Iterator[tuple[str, str]]:
    """(text, kind) in the order of figure 1."""
    yield self.accepted_text, ACCEPTED
    yield from ((text, REJECTED) for text in self.rejected_texts)
    yield self.next_text, CORRECTION if self.rejected else BONUS


class Stream(Iterator[Event]):
  """The events of one decode, made as they are asked for.

  Attributes:
    given: the text before, of a prompt or target prefix; `given` and the events' texts joined are the whole text.
    result: the `Result` so far, None before the first event; in the end what `speculative_decode` returns.
  """

  def __init__(self, steps: Iterator[Result], model: Model, given: Sequence[int], shape: Tree | None):
    self.result: Result | None = None
    self._steps, self._shape, self._text = steps, shape, _Growing(model, given)
    self.given = self._text.shown

  def __next__(self) -> Event:
    self.result = result = next(self._steps)
    assert result.trace is not None
    number, status = int(result.stats.target_calls[0]), Status(int(result.status[0]))
    new, last, text = iteration(result.trace, 0, number - 1, self._shape), status != Status.RUNNING, self._text
    accepted = text.add(new.accepted, whole=last and new.next_token is None)
    rejected = tuple(text.candidate(token) for token in new.rejected)
    return Event(accepted=new.accepted, rejected=new.rejected, next_token=new.next_token, number=number, status=status,
                 stats=result.stats, accepted_text=accepted, rejected_texts=rejected,
                 next_text='' if new.next_token is None else text.add([new.next_token], whole=last))

  def show(self, colour: bool | None = None) -> None:
    """Decodes to the end and shows the text as it grows: in a notebook, or on stdout.

    Args:
      colour: of a terminal; by default where stdout is one and NO_COLOR is not set. Without, the text alone is written.
    """
    display = live.display()(self.given, colour)
    try:
      for event in self:
        display.add(event)
    finally:
      display.close()

  def _ipython_display_(self) -> None:
    self.show()


def stream(target: Model, drafter: Drafter | Model | None, text: str | Int[ArrayLike, '*B S'], *,
           gamma: int | None = None, tree: Tree | int | None = None, sampling: Sampling = Sampling(),
           max_decode_len: int = 128, seed: int = 0, ids: Int[ArrayLike, ' B'] | None = None, lenience: float = 1.0,
           verification: str = 'token', logits_processors: Sequence[Callable] = (),
           lengths: Int[ArrayLike, ' B'] | None = None, target_prefix: Int[ArrayLike, 'B P'] | None = None,
           buckets: Sequence[int] | None = None) -> Stream:
  """Decodes one text and hands out what is accepted after every iteration.

      for event in sd.stream(target, draft, 'Open the file.', gamma=4):
        print(event.text, end='', flush=True)
      sd.stream(target, draft, 'Open the file.', gamma=4).show()  # in colours, in a terminal or a notebook

  The text is that of `speculative_decode` with the same arguments: an iteration is the same program, but it comes back
  to the host each time, which takes longer in all.

  Args:
    target: the `Model`.
    drafter: None decodes plainly, a token an iteration, as `autoregressive_decode` does.
    text: an input or, for a decoder-only model, a prompt; or its tokens, int [S] or [1, S].
    gamma, tree, sampling, max_decode_len, seed, ids, lenience, verification, logits_processors, lengths, target_prefix,
      buckets: as in `speculative_decode`, with B = 1; gamma, tree, lenience and verification only with a drafter.

  Returns:
    An iterator of `Event`, see `Stream`. Arguments are checked before.

  Raises:
    SettingError: as `speculative_decode`; or more than one text.
  """
  target = inputs.checked_target(target)
  if drafter is None and ((gamma, tree, verification) != (None, None, 'token') or lenience != 1):
    raise SettingError('gamma, tree, lenience and verification are of drafts, and there is no drafter: leave them out.')
  tokens = target.encode([text]) if isinstance(text, str) else np.asarray(text)
  tokens = target.check_tokens(tokens[None] if tokens.ndim == 1 else tokens)
  if len(tokens) != 1:
    raise SettingError(f'stream decodes one text, and {len(tokens)} are given; speculative_decode takes a batch.')
  steps = decode_steps(target, drafter, tokens, gamma=gamma, tree=tree, sampling=sampling,
                       max_decode_len=max_decode_len, seed=seed, ids=ids, lenience=lenience, verification=verification,
                       logits_processors=logits_processors, lengths=lengths, target_prefix=target_prefix,
                       buckets=buckets)
  given: list[int] = []
  if target.config.decoder_only:
    given = tokens[0].tolist() if lengths is None else tokens[0, :np.asarray(lengths)[0]].tolist()
  elif target_prefix is not None:
    given = np.asarray(target_prefix)[0].tolist()
  return Stream(steps, target, given, None if drafter is None else inputs.checked_tree(gamma, tree))


class _Growing:
  """The text of tokens that come one after another, as far as no later token can change it.

  Attributes:
    shown: the text so far.
  """

  def __init__(self, model: Model, given: Sequence[int]):
    self._model, self._tokens, self.shown = model, [], ''
    start = () if model.vocabulary is None else model.vocabulary.start
    self.add(given[len(start):] if tuple(given[:len(start)]) == start else given)

  def add(self, tokens: Sequence[int], whole: bool = False) -> str:
    """What they add to the text; with `whole` also what waited for more tokens."""
    self._tokens += tokens
    text = self._decoded(self._tokens) if whole else self._settled()
    added = _beyond(self.shown, text)
    self.shown += added
    return added

  def candidate(self, token: int) -> str:
    """What a token would add."""
    text = self._decoded([*self._tokens, token])
    added = _beyond(self.shown, text)
    return added or (f'<{token}>' if self._model.vocabulary is None else self._model.vocabulary.piece(token))

  def _settled(self) -> str:
    vocabulary = self._model.vocabulary
    if vocabulary is None or isinstance(vocabulary, ByteVocabulary):  # which leaves half a character out
      return self._decoded(self._tokens)
    settled = len(self._tokens)  # bytes that are no text in the end change those before them
    while settled and _BYTE.match(vocabulary.pieces[self._tokens[settled - 1]]):
      settled -= 1
    return self._decoded(self._tokens[:settled]).rstrip(_BROKEN)

  def _decoded(self, tokens: Sequence[int]) -> str:
    """Without what ends texts and, of an encoder-decoder, padding."""
    config, vocabulary = self._model.config, self._model.vocabulary
    left_out = {*self._model.eos_ids, *(() if config.decoder_only else (config.pad_id,))}
    kept = [token for token in tokens if token not in left_out]
    return ''.join(f' <{token}>' for token in kept) if vocabulary is None else vocabulary.decode(kept)


def _beyond(shown: str, text: str) -> str:
  """What a text has after what it shares with one that is shown."""
  shared = next((i for i, (a, b) in enumerate(zip(shown, text)) if a != b), min(len(shown), len(text)))
  return text[shared:]
