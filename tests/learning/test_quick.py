"""Easy tasks that an agent learns in seconds."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs

import tfagents_batch as tfb

PPO = {"num_workers": 0, "rollout": {"length": 64}}
SMALL = {"network": {"hidden": [32]}, "histograms": False}
SETTINGS = SMALL | {"learning_rate": 1e-3, "epochs": 8, "gamma": 0.5}


def train_and_play(algorithm, env, folder, episodes=16, actions="mode", **options):
    """Train without evaluations; return the mean return of the agent afterwards."""
    options |= {"eval_every": 0, "logdir": folder}
    run = tfb.train(algorithm, env=env, **options)
    return tfb.evaluate(run.logdir, episodes, env=env, actions=actions).mean_return


class Identity(gymnasium.Env):
    """Environment that rewards an action equal to the observation.

    The reward is the fraction of equal values, or the negative mean squared distance
    for a Box. Episodes are truncated after 10 steps.
    """

    def __init__(self, space: gymnasium.Space):
        self.observation_space = self.action_space = space
        self._steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._steps = 0
        self._target = self.observation_space.sample()
        return self._target, {}

    def step(self, action):
        if isinstance(self.action_space, gs.Box):
            reward = -float(np.mean(np.square(action - self._target)))
        else:
            reward = float(np.mean(np.asarray(action) == np.asarray(self._target)))
        self._steps += 1
        self._target = self.observation_space.sample()
        return self._target, reward, False, self._steps == 10, {}


@pytest.mark.parametrize(
    ("space", "steps", "threshold"),
    [
        # The best returns without the observation are 2.5, 4.2, 5 and -3.3.
        # The masked actions below are Discrete, too.
        pytest.param(gs.Discrete(4, start=3), 16_000, 9.5, marks=pytest.mark.slow),
        pytest.param(gs.MultiDiscrete([3, 2]), 16_000, 9.5, marks=pytest.mark.slow),
        pytest.param(gs.MultiBinary(3), 16_000, 9.5, marks=pytest.mark.slow),
        (gs.Box(-1, 1, (2,)), 10_000, -0.5),
    ],
    ids=["discrete", "multi_discrete", "multi_binary", "box"],
)
def test_identity_is_learned_for_every_action_space(space, steps, threshold, tmp_path):
    options = PPO | {"steps": steps, "seed": 1, "num_envs": 8, "settings": SETTINGS}
    mean = train_and_play("ppo", lambda: Identity(space), tmp_path, **options)
    assert mean >= threshold


class Masked(gymnasium.Env):
    """Environment of three actions: two are allowed in each step, one has a reward."""

    def __init__(self):
        self.observation_space = gs.Dict(
            state=gs.Discrete(2), action_mask=gs.MultiBinary(3)
        )
        self.action_space = gs.Discrete(3)
        self._steps = 0

    def _observe(self):
        self._state = int(self.np_random.integers(2))
        mask = np.array([[1, 1, 0], [0, 1, 1]][self._state], np.int8)
        return {"state": self._state, "action_mask": mask}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), {}

    def step(self, action):
        if action == [2, 0][self._state]:
            raise AssertionError("an action that is not allowed was taken")
        reward = float(action == [0, 2][self._state])
        self._steps += 1
        return self._observe(), reward, False, self._steps == 10, {}


def test_masked_actions_are_never_taken_during_training(tmp_path):
    options = PPO | {"steps": 8_000, "settings": SETTINGS | {"learning_rate": 3e-3}}
    # The best return without the state is 5.
    assert train_and_play("ppo", Masked, tmp_path, **options) >= 9.5


class Corridor(gymnasium.Env):
    """Environment whose reward is at the end of a corridor.

    Action 1 goes a step ahead, action 0 a step back. Episodes terminate ``length``
    steps ahead of the start, with reward 1, and one step behind it.
    """

    def __init__(self, length: int):
        self.observation_space = gs.Discrete(length)
        self.action_space = gs.Discrete(2)
        self._length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = 0
        return 0, {}

    def step(self, action):
        self._place += 1 if action else -1
        done = not 0 <= self._place < self._length
        reward = float(self._place == self._length)
        return self._place % self._length, reward, done, False, {}


@pytest.mark.parametrize(
    ("length", "steps"),
    [(1, 12_000), pytest.param(10, 24_000, marks=pytest.mark.slow)],
)
def test_ga3c_learns_from_the_last_step_of_an_episode(length, steps, tmp_path):
    options = {"steps": steps, "seed": 1, "num_envs": 8, "num_workers": 2}
    options |= {"settings": SMALL | {"learning_rate": 2e-3}}
    options |= {"episodes": 100, "actions": "sample"}
    # The mean return of random actions is 1 / (1 + length).
    mean = train_and_play("ga3c", lambda: Corridor(length), tmp_path, **options)
    assert mean >= 0.95
