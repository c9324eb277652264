"""What is known of each TPU: its memory, its speeds, and how it comes in slices.

Sizes that are printed are in GB, 1e9 bytes; the memory of a chip is made in GiB, 2^30 bytes.
"""

import dataclasses
import math

from specdec_jax.errors import SettingError

GIB = 2 ** 30


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chip:
  """One chip as Google Cloud's documentation describes it.

  Attributes:
    name: as libtpu's topology names begin.
    memory: bytes of HBM.
    usable: bytes of HBM a device that the compiler (libtpu 0.0.52) lets a program have.
    bandwidth: of the HBM, bytes/s.
    flops: bfloat16 operations/s, peak.
    devices: that jax sees of one chip, each with its share of memory and speed.
    megacore: whether the two cores work as one device.
    host: most chips of one host, in each direction.
    slices: topologies on offer, smallest first; the first may be part of a host.
  """

  name: str
  memory: int
  usable: int
  bandwidth: float
  flops: float
  devices: int = 1
  megacore: bool = False
  host: tuple[int, int, int] = (2, 2, 1)
  slices: tuple[str, ...]


_TORUS = ('1x1x1', '2x2x1', '2x2x2', '2x2x4', '2x4x4', '4x4x4')
_PLANE = ('1x1', '2x2', '2x4', '4x4', '4x8', '8x8')

CHIPS = {chip.name: chip for chip in (
    Chip(name='v4', memory=32 * GIB, usable=int(30.75 * GIB), bandwidth=1.228e12, flops=275e12,
         megacore=True, slices=_TORUS),
    Chip(name='v5e', memory=16 * GIB, usable=int(15.75 * GIB), bandwidth=0.819e12, flops=197e12,
         host=(2, 4, 1), slices=_PLANE),
    Chip(name='v5p', memory=95 * GIB, usable=int(95.73 * GIB), bandwidth=2.765e12, flops=459e12,
         megacore=True, slices=_TORUS),
    Chip(name='v6e', memory=32 * GIB, usable=int(31.24 * GIB), bandwidth=1.638e12, flops=918e12,
         host=(2, 4, 1), slices=_PLANE),
    Chip(name='tpu7x', memory=192 * GIB, usable=int(94.74 * GIB), bandwidth=7.38e12, flops=2307e12,
         devices=2, slices=_TORUS),
)}


def get_chip(name: str) -> Chip:
  """ValueError where the name is not known."""
  if name not in CHIPS:
    raise SettingError(f"chip is '{name}'; it must be one of {', '.join(CHIPS)}.")
  return CHIPS[name]


def extent(topology: str) -> tuple[int, int, int]:
  """'2x2x1' or '2x2' -> (2, 2, 1)."""
  parts = topology.split('x')
  if len(parts) not in (2, 3) or not all(p.isdigit() and int(p) for p in parts):
    raise SettingError(f"topology is '{topology}'; write the chips in each direction, such as "
                     "'1x1x1' or '2x4'.")
  x, y, z = (*map(int, parts), 1)[:3]
  return x, y, z


def num_devices(chip: Chip, topology: str) -> int:
  return math.prod(extent(topology)) * chip.devices
