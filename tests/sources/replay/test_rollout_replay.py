"""A replay around a Rollout of environments that tell the time."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.sources.cases import Counter
from tfagents_batch.clocks import Ratio
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.sources.replay import Replay
from tfagents_batch.sources.replay_settings import ReplaySettings
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.types import Windows


class Stateless(Counter):
    """Acts without a state."""

    def initial_state(self, batch):
        return ()

    def act(self, timestep, state, noise, step, explore):
        count = (tf.zeros([timestep.first.shape[0]], tf.int32),)
        action, behavior, _ = super().act(timestep, count, noise, step, explore)
        return action, {"noise": behavior["noise"]}, state


def test_windows_of_a_rollout_are_consecutive_steps_of_one_episode():
    with ProcessEnv([lambda: CountingEnv(length=4)] * 3, num_workers=0) as env:
        source = Rollout(env, Stateless(), 2, seed=0)
        config, wanted = ReplaySettings(60, steps=2), Windows(32, 3, Ratio(1, 2, 10))
        replay = Replay(source, config, source.outline(), wanted)

        @tf.function(autograph=False)
        def collect(seed, step):
            return replay.store(replay.collect(seed, step), step)

        step, updates = tf.constant(0, tf.int64), 0
        for seed in range(40):
            collected = collect(tf.constant(seed), step)
            step += collected.steps
            updates += int(collected.updates)
        assert updates == (int(step) - 10) // 2
        found = replay.sample((), 1, step)
        episode, count = (found.steps.observation[..., i].numpy() for i in (0, 1))
        mask = found.mask.numpy()
        assert mask[0].all() and not mask.all()
        np.testing.assert_array_equal((count[1:] - count[:-1])[mask], 1)
        np.testing.assert_array_equal((episode[1:] - episode[:-1])[mask], 0)
        np.testing.assert_array_equal(found.reward[mask], count[1:][mask])
        noise = found.behavior["noise"].numpy() > 0.5
        np.testing.assert_array_equal(found.action, noise)
