"""Planning for a TPU without one: ahead-of-time compilation, memory, traffic, predicted speed."""

from specdec_jax import lazy
from specdec_jax.tpu.planner import Plan, plan
from specdec_jax.tpu.traffic import Assumptions

__all__ = ['Assumptions', 'Plan', 'plan']
lazy.show_modules(__name__)
