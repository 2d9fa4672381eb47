"""Rollouts of a pool that are stored in the run's own replay."""

from __future__ import annotations

import tensorflow as tf

from tfagents_batch.distribute.pool import REPLACED, RemoteRollouts
from tfagents_batch.interfaces import VERSION
from tfagents_batch.sources.replay.replay import Replay
from tfagents_batch.types import Collected, Trajectory


class StoringPool(tf.Module):
    """Host source that stores what it fetches, and is sampled like a replay.

    Args:
      pool: what fetches; its plan ``marks`` workers that have just started.
      replay: stores and samples; its inner source is the pool.

    Attributes:
      config: settings of the replay.
    """

    own_file = True

    def __init__(self, pool: RemoteRollouts, replay: Replay):
        super().__init__()
        self.pool, self.replay, self.config = pool, replay, replay.config
        self.envs, self.compilable = pool.envs, pool.compilable
        self.start, self.fetch, self.publish = pool.start, pool.fetch, pool.publish
        self.report, self.traces, self.close = pool.report, pool.traces, pool.close
        self.sample, self.feedback = replay.sample, replay.feedback
        self.named_variables = replay.named_variables
        self.check_numbers, self.interrupt = replay.check_numbers, replay.interrupt
        self.postpone = replay.postpone

    def store(self, collected: Collected, step) -> Collected:
        """Store a trajectory, see ``Replay.store``.

        If a worker has just started, the replay goes on elsewhere for all: its streams
        have one clock.
        """
        trajectory = collected.trajectory
        replaced = trajectory.behavior[REPLACED]
        self.replay.interrupt(tf.reduce_any(replaced))
        return self.replay.store(
            collected._replace(trajectory=without_marks(trajectory)), step
        )

    def check(self) -> None:
        """Raise what has ended the pool, or what the replay cannot store."""
        self.pool.check()
        self.replay.check()


def without_marks(trajectory: Trajectory) -> Trajectory:
    """Return a trajectory as a replay stores it."""
    left = {
        name: x
        for name, x in trajectory.behavior.items()
        if name not in (REPLACED, VERSION)
    }
    return trajectory._replace(behavior=left)
