"""Which slices of each TPU hold a model, from its sizes alone: nothing is compiled, and no weights are read."""

from typing import Any

from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.tpu import drafting, shapes
from specdec_jax.tpu.chips import CHIPS
from specdec_jax.tpu.prediction import Deployment, smallest_slice

DTYPES = ('bfloat16', 'int8')


def fits(config: T5Config | GPT2Config, draft: Any = None, *, batch: int = 1, input_length: int = 128,
         max_decode_len: int = 128, gamma: int = 7) -> list[dict[str, Any]]:
  """The smallest slice of each chip whose devices hold a model, as bfloat16 and with int8 weights.

  Args:
    config: of the model.
    draft: what `tpu.plan` takes as one, or None; it is whole on every device.
    batch, input_length, max_decode_len, gamma: as in `tpu.plan`.

  Returns:
    {'dtype', 'bytes' (of all weights), 'slices': {chip: topology, None where no slice that is known holds it}} each.
  """
  rows = []
  for dtype in DTYPES:
    target = shapes.abstract_model(config, dtype)
    drafter = shapes.abstract_drafter(draft, dtype, target)
    found = {name: smallest_slice(Deployment(
        target=target, drafter=drafter, chip=chip, topology=chip.slices[0], batch=batch, input_length=input_length,
        max_decode_len=max_decode_len), gamma) for name, chip in CHIPS.items()}
    size = shapes.num_bytes(target.params) + shapes.num_bytes(drafting.weights(drafter))
    rows.append({'dtype': dtype, 'bytes': size,
                 'slices': {name: deployment and deployment.topology for name, deployment in found.items()}})
  return rows


def text(rows: list[dict[str, Any]]) -> str:
  """A line for each of `fits`'s rows."""
  return '\n'.join(
      f"fits          as {row['dtype']}, {row['bytes'] / 1e9:.2f} GB, by size: "
      + ', '.join(f"{chip} {topology or 'no slice'}" for chip, topology in row['slices'].items()) for row in rows)
