"""Trajectory views against episodes that are simulated one environment at a time."""

import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tfagents_batch.types import TimeStep, Trajectory

# Events of a step: the episode goes on, it ends in some way, or the step fails.
EVENTS = st.sampled_from(["on", "on", "on", "terminate", "truncate", "both", "fail"])


def simulate(events):
    """Simulate one environment with restart rows in plain Python.

    Returns:
      rows ``(reward, first, terminated, truncated)``, one more than events, and for
      each action True if it led from one state to the next.
    """
    rows, counted = [(0.0, True, False, False)], []
    over = failed = False
    for t, event in enumerate(events):
        if event == "fail":
            rows.append((0.0, True, False, True))
            counted.append(False)
            over = failed = True
        elif over:  # the restart: the action is ignored
            rows.append((0.0, True, False, False))
            counted.append(False)
            over = failed = False
        else:
            terminated = event in ("terminate", "both")
            truncated = event in ("truncate", "both")
            rows.append((float(t + 1), False, terminated, truncated))
            counted.append(not failed)
            over = terminated or truncated
    return rows, counted


def trajectory(rows):
    """Convert ``[B]`` lists of ``[T+1]`` rows to a Trajectory of ``[T+1, B]``."""
    reward, first, terminated, truncated = np.transpose(np.array(rows), (2, 1, 0))
    steps = TimeStep(
        tf.zeros([*reward.shape, 2]),
        tf.constant(reward, tf.float32),
        *(tf.constant(x, tf.bool) for x in (first, terminated, truncated)),
        info={},
    )
    return Trajectory(steps, action=tf.zeros(reward[1:].shape), behavior={})


@st.composite
def batches(draw):
    size, time = draw(st.integers(1, 4)), draw(st.integers(1, 25))
    events = st.lists(EVENTS, min_size=time, max_size=time)
    return [simulate(draw(events)) for _ in range(size)]


@given(batches())
def test_the_mask_is_true_where_an_action_led_to_the_next_state(batch):
    mask = trajectory([rows for rows, _ in batch]).mask
    assert mask.dtype == tf.bool
    np.testing.assert_array_equal(mask, np.transpose([counted for _, counted in batch]))


@given(batches())
def test_only_failed_rows_are_not_valid(batch):
    steps = trajectory([rows for rows, _ in batch]).steps
    failed = [[row == (0.0, True, False, True) for row in rows] for rows, _ in batch]
    np.testing.assert_array_equal(~steps.valid, np.transpose(failed))
    np.testing.assert_array_equal(steps.last, steps.terminated | steps.truncated)


@given(batches(), st.integers(1, 8))
def test_padding_after_the_end_of_an_episode_is_masked(batch, padding):
    rows = [rows + rows[-1:] * padding for rows, _ in batch]
    mask = trajectory(rows).mask.numpy()
    ended = [row[-1][2] or row[-1][3] or row[-1][1] for row, _ in batch]
    assert not mask[-padding:, ended].any()


@given(batches(), st.integers(1, 8))
def test_rows_are_real_except_failures_and_padding(batch, padding):
    plain = trajectory([rows for rows, _ in batch])
    np.testing.assert_array_equal(plain.real, plain.steps.valid)
    ended = plain.steps.last[-1].numpy()
    real = trajectory([rows + rows[-1:] * padding for rows, _ in batch]).real.numpy()
    np.testing.assert_array_equal(real[:-padding], plain.real)
    alive = ended & plain.steps.valid[-1].numpy()
    assert not real[-padding:, alive].any()


def test_views_of_an_example_trajectory_are_correct():
    """s0 -a-> s1 -a-> s2 terminal, restart s0', -a-> s1' truncated, restart s0''."""
    rows, counted = simulate(["on", "terminate", "on", "truncate", "on"])
    views = trajectory([rows])
    assert counted == [True, True, False, True, False]
    np.testing.assert_array_equal(views.mask[:, 0], counted)
    np.testing.assert_array_equal(views.reward[:, 0], [1, 2, 0, 4, 0])
    discount = views.discount(tf.constant(0.5))
    assert discount.dtype == tf.float32
    np.testing.assert_array_equal(discount[:, 0], [0.5, 0, 0.5, 0.5, 0.5])
