"""Work of batch-ppo's presets: many epochs of PPO on whole episodes.

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
    """``Training`` on iterations of whole episodes of ``rollout_length`` steps.

    The objective is not clipped: a KL penalty adapts to ``kl_target``, and a cutoff
    starts at ``kl_cutoff_factor`` times that. Environments have BatchPPO's standard
    stack, which scales ranges to [-1, 1]. Observations and rewards are normalised by
    running statistics.

    Attributes:
      chunk_length: number of consecutive steps of an episode that stay together in a
        minibatch, for contenders that train on chunks.
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
        """Number of episodes of an iteration."""
        return self.batch // self.rollout_length

    @property
    def chunks(self) -> int:
        """Number of chunks of a minibatch."""
        return self.minibatch_size // self.chunk_length


def stacked(name: str, max_episode_steps: int) -> gymnasium.Env:
    """Create an environment in our ``standard_stack``; runs in worker processes.

    Args:
      name: Gymnasium id.
      max_episode_steps: time limit of the stack.
    """
    from tfagents_batch.envs import wrappers

    env = make(name, {})
    return wrappers.standard_stack(env, max_episode_steps=max_episode_steps)
