"""Decoding: the loop that drafts, verifies and commits, and the functions that run it.

`entry` has the functions, `settings` and `state` what the loop is given and what it carries, `loop` the
iteration, `commit` what is kept of a block, `inputs` the checks of what comes in.
"""

from specdec_jax import lazy
from specdec_jax.decoding.entry import (
    autoregressive_decode,
    decode_steps,
    loop_arguments,
    running_decode,
    speculative_decode,
)
from specdec_jax.decoding.loop import decode_loop
from specdec_jax.decoding.settings import Settings

__all__ = ['Settings', 'autoregressive_decode', 'decode_loop', 'decode_steps', 'loop_arguments',
           'running_decode', 'speculative_decode']
lazy.show_modules(__name__)
