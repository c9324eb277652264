"""The decode run: every input to one line of predictions."""

import hashlib
import sys
import time
from collections.abc import Iterable
from typing import Any

import gin
import numpy as np
from absl import logging

from specdec_jax.errors import RunFailed
from specdec_jax.jobs import batching, output, sharing
from specdec_jax.jobs.predictions import FAILED, Predictions
from specdec_jax.jobs.progress import Progress
from specdec_jax.measure.methods import Method
from specdec_jax.model import Model
from specdec_jax.parallel import hosts
from specdec_jax.results import Status
from specdec_jax.sampling import Sampling

MAX_FAILED_BATCHES = 10


def decode(output_dir: str, target: Model = gin.REQUIRED, examples: Iterable = gin.REQUIRED,
           drafter: Any = None, gamma: int | None = None, lenience: float | None = None,
           sampling: Sampling = Sampling(), logits_processors=(), seed: int = 0,
           batch_size: int = 1, max_decode_len: int = 128, max_input_len: int = 512,
           long_inputs: str = 'refuse', prefix: str = '', buckets=()) -> dict:
  """Decodes all examples into `output_dir`/predictions.jsonl, in input order.

  A line has id, input, text, tokens, scores (log-probability of the text under the
  target, nats), status, statistics, and the reference where there is one. Lines are
  kept as they come in predictions.partial.jsonl; a run that stopped is continued by
  the same command, a batch that fails is marked FAILED and the rest goes on. Summary
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
  inputs = batching.encode(target, examples, max_input_len, long_inputs, prefix)
  seen = digest(inputs.examples)
  output.claim_examples(output_dir, seen)
  predictions = Predictions(output_dir, len(inputs.examples))
  done, failed = sharing.earlier(predictions, output_dir, seen)
  if done:
    logging.info('%d of %d examples were decoded before.', len(done), len(inputs.rows))
  fresh = [i for i in range(len(inputs.rows)) if i not in done | failed]
  todo = [batch for indices in (fresh, sorted(failed))  # what failed before goes last
          for batch in batching.batches(inputs, batch_size, max_input_len, indices, buckets)]
  timing = sharing.merge(
      predictions, _decode_all(target, method, inputs, predictions, sharing.share(todo)))
  if timing is None:  # process 0 writes the rest
    return {}
  predictions.finish()
  summary = {'method': method.name, 'examples': len(inputs.rows), 'cut_inputs': inputs.cut,
             **totals(predictions), **timing, 'predictions': predictions.path}
  output.write_json(output_dir, 'summary.json', summary)
  print(f"{summary['examples']} examples, {summary['tokens']} tokens in {predictions.path}"
        f" ({method.name}; {timing['tokens_per_second'] or 0:.1f} tokens/s now)")
  if predictions.failed:
    raise RunFailed(f'{len(predictions.failed)} of {len(inputs.rows)} examples failed '
                       f'(status {FAILED} in {predictions.path}); run again to retry them.')
  return summary


def _decode_all(target, method, inputs, predictions, batches) -> dict:
  """Decodes the batches; tokens/s leaves out the first call of each shape, which compiles."""
  seen, failures = set(), 0
  tokens, seconds, first_seconds = 0, 0.0, 0.0
  with Progress(sum(len(b.indices) for b in batches), method.name) as progress:
    for batch in batches:
      hosts.check()
      start = time.perf_counter()
      try:
        result = method(target, batch)
        elapsed = time.perf_counter() - start
        lines = records(target, inputs, batch, result)
      except Exception as e:
        if not seen and isinstance(e, ValueError):  # a setting that no batch can run with
          raise
        failures += 1
        _record_failure(inputs, predictions, batch, e)
        if not seen or failures >= MAX_FAILED_BATCHES:
          raise
        continue
      predictions.add(lines)
      emitted = int(result.lengths[:len(batch.indices)].sum())
      if batch.tokens.shape in seen:
        tokens, seconds = tokens + emitted, seconds + elapsed
      else:
        first_seconds += elapsed
      seen.add(batch.tokens.shape)
      progress.add(len(batch.indices), emitted)
  return {'seconds': seconds, 'seconds_first_of_shape': first_seconds,
          'tokens_per_second': tokens / seconds if seconds else None}


def records(target, inputs, batch, result) -> dict[int, dict]:
  """The lines of one batch by place in the input."""
  texts = target.decode(result.tokens)
  lines = {}
  for row, index in enumerate(batch.indices.tolist()):
    example, stats = inputs.examples[index], result.stats
    score = float(result.scores[row])
    lines[index] = {
        'id': example.id, 'input': example.text, 'text': texts[row],
        'tokens': result.tokens[row, :result.lengths[row]].tolist(),
        'scores': score if np.isfinite(score) else None,
        'status': Status(int(result.status[row])).name,
        'statistics': {
            **{n: int(getattr(stats, n)[row])
               for n in ('target_calls', 'drafted', 'accepted', 'emitted')},
            **{n: getattr(stats, n)[row].tolist()
               for n in ('accepted_by_position', 'drafted_by_position')}}}
    if example.reference is not None:
      lines[index]['reference'] = example.reference
  return lines


def totals(predictions) -> dict:
  """Counts over all predictions, JSON-ready."""
  counts = dict.fromkeys(('target_calls', 'drafted', 'accepted', 'emitted'), 0)
  status = {}
  for record in predictions:
    status[record['status']] = status.get(record['status'], 0) + 1
    for name in counts:
      counts[name] += record.get('statistics', {}).get(name, 0)
  tokens, drafted, calls = counts.pop('emitted'), counts['drafted'], counts['target_calls']
  return {'status': status, 'tokens': tokens, **counts,
          'acceptance_rate': counts['accepted'] / drafted if drafted else None,
          'tokens_per_call': tokens / calls if calls else None}


def digest(examples) -> str:
  """What the inputs were, so that a changed file is noticed."""
  seen = hashlib.sha256()
  for example in examples:
    seen.update(f'{example.id}\0{example.text}\0'.encode())
  return seen.hexdigest()


def _record_failure(inputs, predictions, batch, error):
  reason = ' '.join(str(error).split())[:500] or type(error).__name__
  ids = [inputs.examples[i].id for i in batch.indices]
  print(f'specdec_jax: examples {ids} failed: {reason}', file=sys.stderr)
  predictions.add({i: {'id': inputs.examples[i].id, 'status': FAILED, 'error': reason}
                   for i in batch.indices.tolist()})
