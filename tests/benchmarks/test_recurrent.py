"""SAC with a GRU: the row, our contender, and the loop in PyTorch."""

import dataclasses

import numpy as np
import pytest

from benchmarks.contenders import off_policy_ours
from benchmarks.inside import session
from benchmarks.inside.window_replay import Replay
from benchmarks.measure import duel, rows
from tests.support import peers
from tfagents_batch.configs import PRESETS

WORK = rows.ROWS["sac-pendulum-gru"].work
SHORT = dataclasses.replace(
    WORK,
    env_kwargs={**WORK.env_kwargs, "max_episode_steps": 9},
    num_envs=2,
    num_workers=0,
    batch_size=6,
    sequence_length=5,
    burn_in=2,
    hidden=(5, 4),
    steps=160,
    block=32,
    blocks=3,
    seconds=0.0,
    warmup_steps=32,
    capacity=90,
)
LENGTH, EPISODE, ENVS = 4, 7, 2


def filled(rows_, steps):
    """Return a replay whose observations count steps; environment 1 is one ahead."""
    replay = Replay(rows_, ENVS, LENGTH, (1, 1, 1), 1)
    for i in range(steps):
        now = np.array([[i], [1000 + i]], np.float32)
        over = (np.arange(ENVS) + i + 1) % EPISODE == 0
        replay.add(now, -now, now[:, 0], now + 1, over, over, now + 0.5)
    return replay


@pytest.mark.parametrize("steps", [5, 20, 53])
def test_windows_are_consecutive_steps_of_one_episode(steps):
    size = 20
    windows = filled(size, steps).sample(500)
    observation = windows.observation[..., 0]
    assert observation.shape == (LENGTH + 1, 500)
    assert (np.diff(observation, axis=0) == 1).all()
    assert (windows.action[..., 0] == -observation[:-1]).all()
    assert (windows.reward == observation[:-1]).all()
    assert (windows.state[:, 0] == observation[0] + 0.5).all()
    assert not windows.terminated[:-1].any()
    # All that are whole are drawn.
    env, first = np.divmod(observation[0], 1000)
    drawn = {*zip(env.astype(int).tolist(), first.astype(int).tolist(), strict=True)}
    possible = range(max(0, steps - size), steps - LENGTH + 1)
    assert drawn == {
        (env, i)
        for env in range(ENVS)
        for i in possible
        if (i + env) % EPISODE <= EPISODE - LENGTH
    }


def test_the_row_is_the_preset():
    preset, ours = PRESETS["sac/pendulum-hidden"](), off_policy_ours.config(WORK)
    # The default is the same number.
    assert ours.settings == dataclasses.replace(preset.settings, target_entropy=-1.0)
    assert (ours.num_envs, WORK.capacity) == (preset.num_envs, preset.source.capacity)
    (wrapper,) = preset.wrappers
    env = {"name": preset.env, "indices": wrapper["indices"]}
    assert WORK.env_kwargs == env


def test_its_environment_hides_the_speed():
    env = WORK.constructor()()
    shown, _ = env.reset(seed=1)
    assert (shown == env.unwrapped._get_obs()[:2]).all()
    env.close()


def gru(inputs, units):
    return (inputs + units) * 3 * units + 3 * units


@pytest.mark.slow
def test_the_loop_in_pytorch_does_the_work_of_our_contender():
    ours = session.run(off_policy_ours.start, SHORT)
    same = ours["same"]
    actor = (2 * 5 + 5) + gru(5, 4) + 2 * (4 + 1)
    critics = gru(2, 4) + 2 * ((5 * 5 + 5) + (5 * 4 + 4) + (4 + 1))
    assert same["parameters"] == actor + critics
    assert same["updates_per_env_step"]["actor"] == "1/4"
    assert (same["core"], same["sequence_length"], same["burn_in"]) == ("gru", 5, 2)
    theirs = peers.run("sac_gru_torch", SHORT, "torch")
    duel._check_same("sac_gru_torch", ours, theirs)
    assert {*theirs["differs"]} == {"parameters", "cell", "windows"}
    # A second bias in each of two GRUs.
    assert theirs["same"]["parameters"] - same["parameters"] == 2 * 3 * 4
    assert theirs["count"] == {"warm_up": 64, "steady": 96}
    assert -9 * 17 < theirs["returns"] < 0
