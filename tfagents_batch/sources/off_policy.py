"""Off-policy experience: a replay of what a policy collects."""

from __future__ import annotations

from collections.abc import Sequence

from tfagents_batch.interfaces import Actor, Algorithm, Env
from tfagents_batch.sources.replay.replay import Replay, outline
from tfagents_batch.sources.replay.settings import Config
from tfagents_batch.sources.rollout import Rollout

__all__ = ["Config", "make"]


def make(
    config: Config,
    env: Env,
    policy: Actor,
    seed: int,
    algorithm: Algorithm,
    info: Sequence[str] = (),
) -> Replay:
    """Return the source of an algorithm; arguments as in ``on_policy.make``.

    Args:
      config: settings of the replay.
      env, policy, seed, info: of the rollouts of ``config.steps`` that it stores.
      algorithm: its ``batch_size``, ``window`` and ``ratio`` say what it samples.
    """
    rollout = Rollout(env, policy, config.steps, seed, info=info)
    return Replay(
        rollout,
        config,
        like=outline(rollout),
        batch_size=algorithm.batch_size,
        window=algorithm.window,
        ratio=algorithm.ratio,
    )
