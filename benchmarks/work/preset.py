"""The work of batch-ppo's presets: PPO on whole episodes, many times over.

Peers run this file too, in an interpreter that may have no TensorFlow.
"""

from __future__ import annotations

import dataclasses

import gymnasium

from benchmarks.work.stepping import make
from benchmarks.work.training import Training

OBJECTIVE = "importance weighting, adaptive KL penalty with a cutoff"


@dataclasses.dataclass(frozen=True)
class PresetTraining(Training):
    """As ``Training``, but an iteration is whole episodes of ``rollout_length`` steps.

    The objective is not clipped: a KL penalty adapts to ``kl_target``, and a cutoff
    begins at ``kl_cutoff_factor`` times that. Environments are in BatchPPO's standard
    stack, which scales ranges to [-1, 1]; observations and rewards are normalised by
    streaming statistics.

    Attributes:
      chunk_length: consecutive steps of an episode that stay together in a minibatch,
        for who trains on chunks.
      init_std: standard deviation of the policy at the start.
    """

    learning_rate: float = 1e-4
    gamma: float = 0.995
    gae_lambda: float = 1.0
    gradient_norm: float | None = None
    adam_epsilon: float = 1e-8
    hidden: tuple[int, ...] = (200, 100)
    chunk_length: int = 50
    kl_target: float = 0.01
    kl_cutoff_factor: float = 2.0
    kl_cutoff_scale: float = 1000.0
    kl_init_penalty: float = 1.0
    init_std: float = 0.35

    @property
    def episodes(self) -> int:
        """Of an iteration."""
        return self.batch // self.rollout_length

    @property
    def chunks(self) -> int:
        """Of a minibatch."""
        return self.minibatch_size // self.chunk_length


def stacked(name: str, max_episode_steps: int) -> gymnasium.Env:
    """An environment in our ``standard_stack``; runs in worker processes.

    Args:
      name: Gymnasium id.
      max_episode_steps: at which the stack cuts off.
    """
    from tfagents_batch.envs import wrappers

    env = make(name, {})
    return wrappers.standard_stack(env, max_episode_steps=max_episode_steps)
