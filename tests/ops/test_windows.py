"""Windows as n-step transitions, against a slow loop."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch.ops import windows
from tfagents_batch.types import TimeStep, Trajectory


def make(last, terminated, first, reward) -> Trajectory:
    """Return windows whose observation is the number of the row."""
    rows, batch = reward.shape
    row = np.repeat(np.arange(rows)[:, np.newaxis], batch, 1)
    last, terminated, first = (tf.constant(x) for x in (last, terminated, first))
    steps = TimeStep(
        tf.constant(row),
        tf.constant(reward),
        first,
        last & terminated,
        last & ~terminated,
        {"episode_return": tf.zeros([rows, batch])},
    )
    return Trajectory(steps, tf.constant(10 * row[:-1]), {})


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(0, 1), st.booleans(), st.integers(0, 999))
def test_transitions_are_those_of_a_slow_loop(n, more, with_bonus, seed):
    random = np.random.default_rng(seed)
    rows, batch, gamma = n + 1 + more, 8, 0.5
    last, terminated = (random.random((rows, batch)) < 0.3 for _ in range(2))
    first = np.concatenate([random.random((1, batch)) < 0.3, last[:-1]])
    first |= random.random((rows, batch)) < 0.1  # breaks of collecting
    reward = random.normal(size=(rows, batch)).astype(np.float32)
    bonus = random.normal(size=(n, batch)).astype(np.float32)
    trajectory = make(last, terminated, first, reward)
    found = windows.transition(trajectory, n, gamma, bonus if with_bonus else None)
    assert found.step.info == found.next.info == {}
    for i in range(batch):
        total, factor, t = 0.0, 1.0, 0
        while t < n and not last[t, i] and not first[t + 1, i]:
            total += factor * (reward[t + 1, i] + with_bonus * bonus[t, i])
            ended = last[t + 1, i] and terminated[t + 1, i]
            factor, t = factor * (0 if ended else gamma), t + 1
        assert bool(found.mask[i]) == (t > 0)
        assert int(found.step.observation[i]) == int(found.action[i]) == 0
        if t:
            assert float(found.reward[i]) == pytest.approx(total, abs=1e-5)
            assert float(found.discount[i]) == pytest.approx(factor)
            assert int(found.length[i]) == int(found.next.observation[i]) == t
        if t and more:
            action = windows.row(trajectory.action, found.length, n)
            assert int(action[i]) == 10 * t
