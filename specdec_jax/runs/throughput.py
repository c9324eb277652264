"""The throughput run: what rows that are filled again bring, by batch size."""

from collections.abc import Callable, Iterable, Sequence

import gin

from specdec_jax import arguments
from specdec_jax.analysis import reliability
from specdec_jax.data.examples import Example
from specdec_jax.drafters.interface import Drafter
from specdec_jax.jobs import output, settings
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.measure.throughput import both
from specdec_jax.model import Model
from specdec_jax.reports.tables import markdown, number
from specdec_jax.reports.words import model_name, unreliable
from specdec_jax.sampling import Sampling
from specdec_jax.tree import Tree

_CHECKS = {name: check for name, check in settings.OF_INPUTS.items() if name != 'batch_size'}


@arguments.checked(**_CHECKS, **settings.OF_METHOD, batch_sizes=arguments.tuple_of(arguments.at_least(1)),
                   hand_backs=arguments.tuple_of(arguments.at_least(1), empty=True), repeats=arguments.at_least(1))
def throughput(output_dir: str, target: Model = gin.REQUIRED, examples: Iterable[Example] = gin.REQUIRED,
               drafter: Drafter | Model | None = None, gamma: int | None = None, tree: Tree | int | None = None,
               lenience: float | None = None, verification: str | None = None, sampling: Sampling = Sampling(),
               logits_processors: Sequence[Callable] = (), seed: int = 0, batch_sizes: Sequence[int] = (1, 4, 16, 64),
               hand_backs: Sequence[int] = (), repeats: int = 1, max_decode_len: int = 128, max_input_len: int = 512,
               long_inputs: str = 'refuse', prefix: str = '', buckets: Sequence[int] = ()) -> dict:
  """Decodes all examples batch after batch, and as decode does it, in rows that are filled again.

  Writes throughput.json and throughput.md into output_dir and prints the latter.

  Args:
    output_dir: claimed by `launch.main`.
    target, examples, drafter, gamma, tree, lenience, verification, sampling, logits_processors, seed, max_decode_len,
      max_input_len, long_inputs, prefix, buckets: as in `decode`.
    batch_sizes: of which each is timed both ways, in turns.
    hand_backs: how many rows end before the loop comes back; those that a batch size is less than are left out. None
      of them is the default of `Running`.
    repeats: timings of each way, of which the median counts.

  Returns:
    The report.
  """
  method = Method(drafter=drafter, gamma=gamma, tree=tree, lenience=lenience, verification=verification,
                  sampling=sampling, seed=seed, max_decode_len=max_decode_len, logits_processors=logits_processors)
  found, spreads, rows = [], {}, []
  for batch_size in batch_sizes:
    options = InputOptions(batch_size=batch_size, max_input_len=max_input_len, long_inputs=long_inputs, prefix=prefix,
                           buckets=buckets)
    inputs = options.encode(target, examples)
    fitting: list[int | None] = [h for h in hand_backs if h <= batch_size]
    for hand_back in fitting or [None]:
      batches, refilled = both(target, method, inputs, options, hand_back, repeats)
      same = sum(a == b for a, b in zip(batches.texts, refilled.texts))
      for name, way in (('batch after batch', batches), ('rows filled again', refilled)):
        ours = {'batch_size': batch_size, 'way': name, 'hand_back': hand_back, 'tokens': way.tokens,
                'tokens_per_second': way.tokens_per_second, 'occupancy': way.occupancy, 'calls': way.calls,
                'same_texts': same, 'seconds': way.seconds}
        found.append(ours)
        spreads[f'{name}, batch {batch_size}'] = way.spread
        gain = way.tokens_per_second / batches.tokens_per_second
        label = name if hand_back is None or way is batches else f'{name}, {hand_back} at once'
        rows.append([batch_size, label, number(way.occupancy, 3), number(way.tokens_per_second, 1),
                     number(gain, 2, 'X'), way.calls, f'{same} of {len(inputs.rows)}'])
  reasons = reliability.of_repeats(spreads)
  result = {'target': model_name(target), 'method': method.name, 'examples': len(inputs.rows), 'repeats': repeats,
            'device': output.environment()['device'], 'measured': found, 'unreliable': reasons}
  output.write_json(output_dir, 'throughput.json', result)
  header = ['batch', 'rows', 'occupancy', 'tokens/s', 'gain', 'returns to the host', 'same texts']
  text = (f'Target: {result["target"]}; {method.name}. {len(inputs.rows)} inputs, up to {max_decode_len} tokens, '
          f'medians of {repeats}.\n\n' + markdown(header, rows, 'rlrrrrr')
          + unreliable('tokens/s', reasons, 'throughput.repeats'))
  output.write(output_dir, 'throughput.md', text)
  print(text)
  return result
