"""Distributions of actions: ``for_space`` returns the family of an action space."""

from tfagents_batch.ops.distributions.families import for_space

__all__ = ["for_space"]
