"""Optimisers and the learning-rate schedule, in optax."""

import optax


def schedule(steps: int, peak: float = 1e-2, warmup_steps: int = 500, decay_steps: int = 0):
  """Linear warm-up, constant, then linear to zero over the last decay_steps."""
  return optax.join_schedules(
      [optax.linear_schedule(0.0, peak, warmup_steps),
       optax.constant_schedule(peak),
       optax.linear_schedule(peak, 0.0, max(decay_steps, 1))],
      [warmup_steps, steps - decay_steps])


def adamw(learning_rate, b1: float = 0.9, b2: float = 0.98, weight_decay: float = 0.0,
          scale_by_param_rms: bool = True):
  """AdamW; each update scaled by the parameter's own RMS, as Adafactor does, where asked."""
  return optax.chain(
      optax.scale_by_adam(b1, b2, eps=1e-9),
      optax.scale_by_param_block_rms(1e-3) if scale_by_param_rms else optax.identity(),
      optax.add_decayed_weights(weight_decay),
      optax.scale_by_learning_rate(learning_rate))


def adafactor(learning_rate, **settings):
  """Adafactor as T5 uses it (no momentum, updates relative to the parameter's scale)."""
  return optax.adafactor(learning_rate, multiply_by_parameter_scale=True, momentum=None, **settings)


def optimizer(steps: int, make=adamw, schedule=schedule, max_grad_norm: float = 1.0):
  """Gradient clipping by global norm, then `make` (adamw or adafactor) on the schedule."""
  return optax.chain(optax.clip_by_global_norm(max_grad_norm), make(schedule(steps)))
