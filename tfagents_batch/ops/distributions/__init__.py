"""Distributions of actions: ``for_space`` chooses those of an action space."""

from tfagents_batch.ops.distributions.families import for_space

__all__ = ["for_space"]
