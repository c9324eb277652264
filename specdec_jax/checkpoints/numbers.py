"""Whether weights are finite, and whether they still are as they are stored."""

import numpy as np

_AT_ONCE = 1 << 22  # elements


def count_nonfinite(value: np.ndarray) -> int:
  """How many elements of a float array are NaN or infinite; a few at a time, to spare memory."""
  flat = value.reshape(-1)
  return sum(int((~np.isfinite(flat[i:i + _AT_ONCE])).sum()) for i in range(0, flat.size, _AT_ONCE))
