"""The complete run: one text from the command line, what the model makes of it on screen."""

from collections.abc import Callable, Sequence

import gin

from specdec_jax import arguments
from specdec_jax.data.examples import Example
from specdec_jax.drafters.interface import Drafter
from specdec_jax.jobs import inputs as inputs_lib, settings
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.model import Model
from specdec_jax.notes import note
from specdec_jax.results import Status
from specdec_jax.sampling import Sampling
from specdec_jax.tree import Tree

_OPTIONS = {name: check for name, check in inputs_lib.CHECKS.items() if name != 'batch_size'}


@arguments.checked(**_OPTIONS, **settings.OF_METHOD, target=settings.MODEL, prompt=arguments.text,
                   max_decode_len=settings.MAX_DECODE_LEN, stream=arguments.flag)
def complete(output_dir: str, target: Model = gin.REQUIRED, prompt: str = gin.REQUIRED,
             drafter: Drafter | Model | None = None, gamma: int | None = None, tree: Tree | int | None = None,
             lenience: float | None = None, verification: str | None = None, sampling: Sampling = Sampling(),
             logits_processors: Sequence[Callable] = (), seed: int = 0,
             max_decode_len: int = 64, max_input_len: int = 512, long_inputs: str = 'refuse', prefix: str = '',
             buckets: Sequence[int] = (), stream: bool = False) -> dict:
  """Prints the text and how many target calls it took; keeps no results in output_dir.

  Args:
    output_dir: claimed by `launch.main`.
    target, drafter, gamma, tree, lenience, verification, sampling, logits_processors, seed, max_decode_len:
      as in `decode`.
    prompt: what a decoder-only model goes on from (and is printed with), or an encoder's input.
    max_input_len, long_inputs, prefix, buckets: see `jobs.inputs.InputOptions`.
    stream: print the text as it is accepted, in the colours of figure 1 where stdout is a terminal.

  Returns:
    What was printed, and the result's counts.
  """
  del output_dir
  method = Method(drafter=drafter, gamma=gamma, tree=tree, lenience=lenience, verification=verification,
                  sampling=sampling, seed=seed, max_decode_len=max_decode_len, logits_processors=logits_processors)
  options = InputOptions(max_input_len=max_input_len, long_inputs=long_inputs, prefix=prefix, buckets=buckets)
  inputs = options.encode(target, [Example(0, prompt)])
  batch, = options.batches(inputs)
  note('compiling')
  if stream:
    events = method.stream(target, batch)
    events.show()
    result = events.result
    assert result is not None
  else:
    result = method(target, batch)
  emitted = result.tokens[0, :result.lengths[0]].tolist()
  given = inputs.rows[0][len(target.vocabulary.start):] if inputs.prompts else []
  text, = target.decode([given + emitted])
  stats = result.stats
  counts = (f'{len(emitted)} tokens ({Status(int(result.status[0])).name}) in {stats.target_calls[0]} '
            f'target calls, {stats.tokens_per_call:.2f} tokens a call')
  if drafter is not None:
    counts += f'; {stats.accepted[0]} of {stats.drafted[0]} draft tokens accepted'
  print('' if stream else f'{text}\n', f'{counts} ({method.name})', sep='\n')
  return {'text': text, 'tokens': emitted, 'target_calls': int(stats.target_calls[0]),
          'tokens_per_call': stats.tokens_per_call, 'acceptance_rate': stats.acceptance_rate}
