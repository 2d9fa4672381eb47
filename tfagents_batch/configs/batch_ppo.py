"""The presets of batch-ppo (Hafner et al. 2017), with the settings of the original.

Networks, objective, budgets, filters and wrappers are those of its last version, on the
newest versions of its environments. Its defects are fixed: means ignore padding, a time
limit is a truncation, acting and learning normalize observations alike, and constant
rewards are not scaled; see ``docs/migrating/batch-ppo.md``.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from tfagents_batch.config import replace
from tfagents_batch.schedules import Constant
from tfagents_batch.training.config import RunConfig, with_options

if TYPE_CHECKING:
    from tfagents_batch.algorithms import ppo
    from tfagents_batch.nn import networks


@functools.cache
def feed_forward() -> networks.NetworkConfig:
    """Return the networks of the original: two ReLU networks with Glorot kernels.

    They have 200 and 100 units. The mean of a Box policy lies within the bounds of
    actions, or within -1 and 1 if these are not finite; its initial standard deviation
    is 0.35 halves of this range.
    """
    from tfagents_batch.nn import networks

    return networks.NetworkConfig(
        hidden=(200, 100),
        activation="relu",
        initializer="glorot",
        policy_scale=0.1,
        mean="tanh",
        std="softplus",
        init_std=0.35,
    )


def recurrent() -> networks.NetworkConfig:
    """Return a GRU of 100 units in the policy; the value sees only the observation."""
    return dataclasses.replace(feed_forward(), core="gru", value_core="none")


@functools.cache
def _defaults() -> ppo.PPOConfig:
    """Return the settings that all tasks of the original have."""
    # Imported here because they import TensorFlow, which names do not need.
    from tfagents_batch.algorithms import ppo, ppo_penalty

    return ppo.PPOConfig(
        objective="kl",
        gamma=0.995,
        gae_lambda=1.0,  # Monte Carlo
        value_target="return",
        learning_rate=Constant(1e-4),
        optimizer_epsilon=1e-8,
        epochs=25,
        minibatch_size=None,  # each epoch is one step on the whole batch
        max_gradient_norm=None,
        kl=ppo_penalty.KLConfig(
            target=0.01,
            init_penalty=1.0,
            cutoff_factor=2.0,
            cutoff_scale=1000.0,
            reduction="sequence",
        ),
        normalize_advantage="batch",
        observation_clip=5.0,
        normalize_return="per_step",
        reward_clip=10.0,
        normalize_epsilon=1e-4,
        network=feed_forward(),
    )


def preset(
    env: str,
    steps: int,
    limit: int,
    episodes: int = 30,
    normalize_ranges: bool = True,
    **settings: Any,
) -> RunConfig:
    """Return the config of a task, a Gymnasium id, with the defaults of the original.

    Args:
      env, steps: Gymnasium id, and environment steps of training.
      limit: time limit of an episode in steps, ``max_length`` in batch-ppo.
      episodes: episodes per update.
      normalize_ranges: True scales finite bounds to -1 and 1.
      **settings: settings of PPO that differ.
    """
    stack = {"name": "standard_stack", "max_episode_steps": limit}
    if not normalize_ranges:
        stack["normalize_ranges"] = False
    config = RunConfig(
        env=env,
        wrappers=[stack],
        steps=steps,
        num_envs=30,
        eval_episodes=30,
        settings=replace(_defaults(), settings),
    )
    return with_options(config, {"rollout.episodes": episodes})


_HALFCHEETAH = functools.partial(preset, "HalfCheetah-v5", 10_000_000, 1000, gamma=0.99)
_TASKS = {
    "pendulum": functools.partial(
        preset,
        "Pendulum-v1",
        1_000_000,
        200,
        sequence_length=50,
        minibatch_size=20 * 50,
        drop_last=True,
    ),
    "cartpole": functools.partial(
        preset, "CartPole-v1", 200_000, 500, normalize_ranges=False
    ),
    # batch-ppo had a time limit of 1000; the environment's own is 50.
    "reacher": functools.partial(
        preset, "Reacher-v5", 5_000_000, 50, episodes=60, gamma=0.985
    ),
    "halfcheetah": _HALFCHEETAH,
    "cheetah": _HALFCHEETAH,
    "walker": functools.partial(preset, "Walker2d-v5", 10_000_000, 1000),
    "hopper": functools.partial(preset, "Hopper-v5", 10_000_000, 1000, episodes=60),
    "ant": functools.partial(preset, "Ant-v5", 20_000_000, 1000),
    "humanoid": functools.partial(preset, "Humanoid-v5", 50_000_000, 1000, episodes=60),
}
PRESETS = {f"batch_ppo/{name}": task for name, task in _TASKS.items()}

REFUSED = {
    "batch_ppo/bullet_ant": "AntBulletEnv-v0 needs PyBullet and the legacy gym, which "
    "are not supported; use batch_ppo/ant, a similar task in MuJoCo"
}
