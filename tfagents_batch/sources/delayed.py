"""Rollouts of a policy that is a fixed number of updates old, to study its effects."""

from __future__ import annotations

import tensorflow as tf

from tfagents_batch.interfaces import VERSION, Policy
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.types import Collected, Trajectory


class Delayed(tf.Module):
    """Source whose policy acts with the weights of ``lag`` updates ago.

    Before there were so many updates, it acts with the first weights. Each transition
    has the version of the policy that acted.

    Args:
      rollout: source with a policy of its own.
      trained: policy that learns, which it follows; one update after each collect.
      lag: number of updates.

    Attributes:
      followers: policies that copy the weights that learn: that of the rollout.
    """

    def __init__(self, rollout: Rollout, trained: Policy, lag: int):
        super().__init__()
        self.envs, self._rollout, self._trained = rollout.envs, rollout, trained
        self.followers = [rollout.actor]
        self._lag, size = lag, lag + 1
        self._count = tf.Variable(0, trainable=False)
        self._rings = {
            name: tf.Variable(tf.repeat(tf.convert_to_tensor(x)[tf.newaxis], size, 0))
            for name, x in trained.named_variables().items()
        }

    @property
    def compilable(self) -> bool:
        """True if collecting can run under XLA."""
        return self._rollout.compilable

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return the state of the rollout and all older weights."""
        rings = {f"ring/{name}": x for name, x in self._rings.items()}
        return self._rollout.named_variables() | rings | {"count": self._count}

    def collect(self, seed, step) -> Collected:
        """Store the newest weights, take the oldest ones, and collect."""
        size = self._lag + 1
        count = self._count.read_value()
        newest, oldest = count % size, (count + 1) % size
        acting, trained = self._rollout.actor, self._trained
        mine, its = acting.named_variables(), trained.named_variables()
        for name, ring in self._rings.items():
            value = tf.convert_to_tensor(its[name])[tf.newaxis]
            ring.scatter_nd_update(tf.reshape(newest, [1, 1]), value)
            mine[name].assign(tf.gather(ring.read_value(), oldest))
        # A resumed run counts its versions from 0 again, so those before are negative.
        age = tf.cast(tf.minimum(count, self._lag), tf.int64)
        acting.version.assign(trained.version.read_value() - age)
        self._count.assign(count + 1)
        found = self._rollout.collect(seed, step)
        trajectory = found.trajectory
        version = tf.fill(trajectory.mask.shape, acting.version.read_value())
        behavior = trajectory.behavior | {VERSION: version}
        return found._replace(trajectory=trajectory._replace(behavior=behavior))

    def sample(self, collected: Collected, seed, step) -> Trajectory:
        """Return the collected trajectory."""
        return self._rollout.sample(collected, seed, step)

    def feedback(self, priority: tf.Tensor) -> None:
        """Ignore priorities: a trajectory is used once."""
