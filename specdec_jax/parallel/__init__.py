"""Devices: how a model is laid over a mesh."""
