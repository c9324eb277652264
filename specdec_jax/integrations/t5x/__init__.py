"""Speculative decoding inside T5X's own programs; see docs/t5x.md."""

from specdec_jax import lazy
from specdec_jax.errors import DependencyError

try:
  import t5x.models  # noqa: F401
except ImportError as e:
  raise DependencyError(f"T5X can't be imported ({e}); install it from github.com/google-research/t5x: "
                        "pip install -e '.[t5x]'") from e

from specdec_jax.integrations.t5x.draft import Draft
from specdec_jax.integrations.t5x.interactive import InteractiveModel
from specdec_jax.integrations.t5x.model import SpeculativeModel
from specdec_jax.integrations.t5x.restoring import CheckpointManager, TrainStateInitializer

__all__ = ['CheckpointManager', 'Draft', 'InteractiveModel', 'SpeculativeModel', 'TrainStateInitializer']
lazy.show_modules(__name__)
