"""Batched reinforcement learning inside the TensorFlow graph."""

__version__ = "0.1.0"
