"""The decode run: every input to one line of predictions."""

import contextlib
from collections.abc import Iterable
from typing import Any

import gin

from specdec_jax import stopping
from specdec_jax.data.examples import check_ids
from specdec_jax.errors import RunFailed
from specdec_jax.jobs import batching, claims, fingerprint, output, sharing, work
from specdec_jax.jobs.predictions import FAILED, Predictions
from specdec_jax.measure.methods import Method
from specdec_jax.model import Model
from specdec_jax.notes import note
from specdec_jax.sampling import Sampling


def decode(output_dir: str, target: Model = gin.REQUIRED, examples: Iterable = gin.REQUIRED,
           drafter: Any = None, gamma: int | None = None, lenience: float | None = None,
           sampling: Sampling = Sampling(), logits_processors=(), seed: int = 0,
           batch_size: int = 1, max_decode_len: int = 128, max_input_len: int = 512,
           long_inputs: str = 'refuse', prefix: str = '', buckets=()) -> dict:
  """Decodes all examples into `output_dir`/predictions.jsonl, in input order.

  A line has id, input, text, tokens, scores (log-probability of the text under the
  target, nats), status, statistics, and the reference where there is one. Lines are
  kept as they come in predictions.partial.jsonl; a run that stopped is continued by
  the same command, an example that fails is marked FAILED and the rest goes on. Summary
  in summary.json. Of several processes each decodes a part, and process 0 writes these.

  Args:
    output_dir: claimed by `launch.main`.
    target: whose distribution the text follows.
    examples: of `data.examples.Example`.
    drafter, gamma, lenience, sampling, logits_processors, seed, max_decode_len: see
      `decoding.speculative_decode`; without a drafter, plain decoding.
    batch_size: rows of a device call; no result depends on it.
    max_input_len: longest input in tokens, EOS counted.
    long_inputs: 'refuse' longer ones, naming them, or 'cut' them, counting.
    prefix: put before every input, such as T5's 'translate English to German: '.
    buckets: lengths that inputs are padded to, a compilation each; powers of two by default.

  Returns:
    The summary; {} but on process 0.
  """
  method = Method(drafter=drafter, gamma=gamma, lenience=lenience, sampling=sampling, seed=seed,
                  max_decode_len=max_decode_len, logits_processors=tuple(logits_processors))
  examples = list(examples)
  check_ids(examples)
  digests = {'inputs': fingerprint.of_examples(examples), 'target': fingerprint.of_weights(target),
             'drafter': fingerprint.of_weights(drafter)}
  claims.tie_contents(output_dir, digests)
  inputs = batching.encode(target, examples, max_input_len, long_inputs, prefix)
  predictions = Predictions(output_dir, [e.id for e in examples])
  done, failed = sharing.earlier(predictions, output_dir, digests)
  if done:
    note(f'{len(done)} of {len(examples)} examples were decoded before.')
  fresh = [i for i in range(len(examples)) if i not in done | failed]
  todo = [batch for indices in (fresh, sorted(failed))  # what failed before goes last
          for batch in batching.batches(inputs, batch_size, max_input_len, indices, buckets)]
  going_on = lambda: (f'{predictions.num_done} examples are in {predictions.partial_path}, and the same command '
                      'goes on with the rest')
  with contextlib.closing(predictions), stopping.hint(going_on):
    timing = sharing.merge(
        predictions, work.decode_all(method.name, method, target, inputs, predictions, sharing.share(todo)))
    if timing is None:  # process 0 writes the rest
      return {}
    predictions.finish()
  summary = {'method': method.name, 'examples': len(examples), 'cut_inputs': inputs.cut,
             **work.totals(predictions), **timing, 'predictions': predictions.path}
  output.write_json(output_dir, 'summary.json', summary)
  print(f"{summary['examples']} examples, {summary['tokens']} tokens in {predictions.path}"
        f" ({method.name}; {timing['tokens_per_second'] or 0:.1f} tokens/s now)")
  if predictions.failed:
    raise RunFailed(f'{len(predictions.failed)} of {len(examples)} examples failed '
                    f'(status {FAILED} in {predictions.path}); run again to retry them.')
  return summary
