"""Devices: how a model is laid over a mesh."""

from specdec_jax import lazy

lazy.show_modules(__name__)
