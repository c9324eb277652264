"""Inputs decoded by a loop whose rows are filled again, as one result in the inputs' order."""

import jax
import numpy as np

SHORT = 4


def drain(running, tokens, ids, lengths=None, order=None, together=None):
  """All rows of tokens [n, S] through a `Running`.

  Args:
    running: of any number of rows.
    tokens, ids, lengths: int [n, S], [n], [n], NumPy.
    order: int [n], in which they come; as they are by default.
    together: how many are encoded at once; as many as there are rows by default. A group of short inputs is padded to
      SHORT, others to S.
  """
  left = list(range(len(ids)) if order is None else order)
  found = {}
  while left or running.waiting or running.running:
    while left and running.hungry:
      group, left = left[:together or running.rows], left[together or running.rows:]
      used = np.max(lengths[group]) if lengths is not None else (tokens[group] != 0).any(0).sum()
      width = SHORT if used <= SHORT else tokens.shape[1]
      running.encode(group, tokens[group][:, :width], ids[group], None if lengths is None else lengths[group])
    running.advance()
    tags, result = running.ended()
    found |= {tag: jax.tree.map(lambda x, row=row: x[row], result) for row, tag in enumerate(tags)}
  assert sorted(found) == list(range(len(ids)))
  return jax.tree.map(lambda *rows: np.stack(rows), *(found[i] for i in range(len(ids))))
