"""Optimisers and the learning-rate schedule, in optax."""

from collections.abc import Callable

import optax

from specdec_jax import arguments

_BELOW_1 = arguments.number(lambda x: 0 <= x < 1, 'in [0, 1)')


@arguments.checked(steps=arguments.at_least(0), peak=arguments.positive, warmup_steps=arguments.at_least(0),
                   decay_steps=arguments.at_least(0))
def schedule(steps: int, peak: float = 1e-2, warmup_steps: int = 500, decay_steps: int = 0) -> optax.Schedule:
  """Linear warm-up, constant, then linear to zero over the last decay_steps."""
  return optax.join_schedules(
      [optax.linear_schedule(0.0, peak, warmup_steps),
       optax.constant_schedule(peak),
       optax.linear_schedule(peak, 0.0, max(decay_steps, 1))],
      [warmup_steps, steps - decay_steps])


@arguments.checked(b1=_BELOW_1, b2=_BELOW_1, weight_decay=arguments.not_negative, scale_by_param_rms=arguments.flag)
def adamw(learning_rate: optax.Schedule, b1: float = 0.9, b2: float = 0.98, weight_decay: float = 0.0,
          scale_by_param_rms: bool = True) -> optax.GradientTransformation:
  """AdamW; each update scaled by the parameter's own RMS, as Adafactor does, where asked."""
  return optax.chain(
      optax.scale_by_adam(b1, b2, eps=1e-9),
      optax.scale_by_param_block_rms(1e-3) if scale_by_param_rms else optax.identity(),
      optax.add_decayed_weights(weight_decay),
      optax.scale_by_learning_rate(learning_rate))


@arguments.checked(min_dim_size_to_factor=arguments.at_least(1), decay_rate=_BELOW_1,
                   clipping_threshold=arguments.optional(arguments.positive),
                   weight_decay_rate=arguments.optional(arguments.not_negative))
def adafactor(learning_rate: optax.Schedule, min_dim_size_to_factor: int = 128, decay_rate: float = 0.8,
              clipping_threshold: float | None = 1.0,
              weight_decay_rate: float | None = None) -> optax.GradientTransformation:
  """Adafactor as T5 uses it (no momentum, updates relative to the parameter's scale); arguments as optax's."""
  return optax.adafactor(
      learning_rate, min_dim_size_to_factor=min_dim_size_to_factor, decay_rate=decay_rate,
      clipping_threshold=clipping_threshold, weight_decay_rate=weight_decay_rate,
      multiply_by_parameter_scale=True, momentum=None)


@arguments.checked(steps=arguments.at_least(0), make=arguments.function, schedule=arguments.function,
                   max_grad_norm=arguments.positive)
def optimizer(steps: int, make: Callable = adamw, schedule: Callable = schedule,
              max_grad_norm: float = 1.0) -> optax.GradientTransformation:
  """Gradient clipping by global norm, then `make` (adamw or adafactor) on the schedule."""
  return optax.chain(optax.clip_by_global_norm(max_grad_norm), make(schedule(steps)))
