import re

import gymnasium
import gymnasium.spaces as gs
import numpy as np
import pytest

import tfagents_batch as tfb
from tfagents_batch.envs.checking.scale import SeenRange
from tfagents_batch.envs.wrappers.named import NAMES

INF = np.inf


class Observes(gymnasium.Env):
    """Environment whose observations and rewards come from two functions."""

    action_space = gs.Discrete(2)

    def __init__(self, space, observe, reward=lambda g: 1.0):
        self.observation_space = space
        self._observe, self._reward = observe, reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observe(self.np_random), {}

    def step(self, action):
        observation = self._observe(self.np_random)
        ended = self.np_random.random() < 0.1
        return observation, self._reward(self.np_random), ended, False, {}


def found(space, observe, **options):
    report = tfb.check_env(
        lambda: Observes(space, observe, **options), 60, raise_on_defect=False
    )
    assert not report.defects
    return {each.kind: str(each) for each in report.findings}


def uniform(space, low, high):
    """Return a function that draws values of a Box between other bounds."""

    def draw(generator):
        x = generator.uniform(low, high, space.shape)
        return (np.rint(x) if space.dtype.kind in "iu" else x).astype(space.dtype)

    return draw


# Space, range of its values, kinds of findings and a part of the first one's text.
CASES = {
    "pixels": (gs.Box(0, 255, (9, 9, 3), np.uint8), 0, 255, [], ""),
    "dark": (gs.Box(0, 255, (9, 9, 3), np.uint8), 0, 10, ["small range"], "0.039 of"),
    "planes": (gs.Box(0, 1, (9, 9, 3), np.uint8), 0, 1, ["image"], "of 0 to 1"),
    "stack": (gs.Box(0, 255, (4, 9, 9, 3), np.uint8), 0, 255, ["image"], "12 channels"),
    "float image": (gs.Box(0, 1, (9, 9, 3)), 0, 1, ["image"], "CNN"),
    "no image": (gs.Box(-INF, INF, (9, 9, 3)), -1, 1, ["no image"], "243 numbers"),
    "flags": (gs.Box(0, 1, (9, 9, 3), bool), 0, 1, ["planes"], "network.cnn"),
    "huge image": (gs.Box(0, 255, (300, 300), np.uint8), 0, 255, ["size"], "90,000"),
    "narrow": (gs.Box(0, 60_000, (2,), np.int32), 100, 199, ["small range"], "100 to"),
    "whole": (gs.Box(0, 100, (2,), np.int32), 0, 100, [], ""),
    "wide": (gs.Box(-(2**31), 2**31 - 1, (1,), np.int32), 0, 1e6, ["large"], "DQN"),
    "small": (gs.Box(-(2**31), 2**31 - 1, (1,), np.int32), 0, 9, [], ""),
    "times": (gs.Box(-INF, INF, (2,), np.float64), 1.7e9, 1.7e9 + 60, ["lost"], "128"),
    "tiny": (gs.Box(-INF, INF, (2,), np.float64), -1e-9, 1e-9, ["tiny"], "constant"),
    "large": (gs.Box(-INF, INF, (2,), np.float64), -1e6, 1e6, ["large"], "SAC"),
    "many": (gs.Box(-1, 1, (20_000,)), -1, 1, ["size"], "1,280,000 weights"),
    "plain": (gs.Box(-1, 1, (2,)), -1, 1, [], ""),
}


@pytest.mark.parametrize("name", CASES)
def test_observations_that_the_defaults_learn_badly_from_are_named(name):
    space, low, high, kinds, text = CASES[name]
    results = found(space, uniform(space, low, high))
    assert [kind for kind in results if kind in kinds] == kinds
    assert set(results) - set(kinds) <= {"large"}  # time stamps are large too
    assert not kinds or text in results[kinds[0]]


@pytest.mark.parametrize("name", [x for x in CASES if "large" in CASES[x][3]])
def test_wrappers_for_large_observations_are_those_that_a_run_keeps(name):
    """A run keeps no statistics of Gymnasium's NormalizeObservation."""
    space, low, high, *_ = CASES[name]
    text = found(space, uniform(space, low, high))["large"]
    advised = re.findall(r'(?:wrappers\.|wrappers=\[")(\w+)', text)
    assert advised and set(advised) <= set(NAMES)


def test_a_discrete_observation_with_many_values_is_a_large_first_layer():
    space = gs.Discrete(10**6)
    results = found(space, lambda generator: int(generator.integers(10**6)))
    assert "64,000,000 weights" in results["size"]


def test_an_action_mask_is_not_judged():
    space = gs.Dict(action_mask=gs.Box(0, 10**5, (2,), np.int64), x=gs.Box(-1, 1, (1,)))
    value = {"action_mask": np.ones(2, np.int64), "x": np.zeros(1, np.float32)}
    assert not found(space, lambda generator: value | {"x": np.zeros(1, np.float32)})


def test_rewards_that_are_all_tiny_are_named():
    space = gs.Box(-1, 1, (1,))
    observe = uniform(space, -1, 1)
    rewards = {1e-9: True, 1e-3: False, 0.0: False}
    for reward, tiny in rewards.items():
        results = found(space, observe, reward=lambda g, reward=reward: reward)
        assert ("tiny" in results) == tiny


def extent(*values):
    found = SeenRange(np.shape(values[0]))
    for value in values:
        found.add(np.asarray(value))
    return found


def test_an_extent_has_the_lowest_and_highest_value_of_each_entry():
    found = extent([1, 5], [3, 2])
    np.testing.assert_array_equal(found.low, [1, 2])
    np.testing.assert_array_equal(found.spread, [2, 3])


def test_changes_that_float32_does_not_have_are_found_with_their_place():
    text = extent([0.5, 1.7e9], [0.2, 1.7e9 + 60]).unresolved()
    assert text.startswith(" at [1] is 1700000000 to 1700000060; it hardly")
    assert "128 apart" in text


@pytest.mark.parametrize(
    "values",
    [
        (1.7e9, 1.7e9),  # constant
        (1.7e9, 1.7e9 + 3e3),
        (2.0**24, 2.0**24 + 32),
        (1.0, 1.0 + 1e-12),  # a rounding error
        (1e5, 1e5 + 1e-10),
        (-1e300, 1e300),
    ],
)
def test_constants_wide_ranges_and_rounding_errors_are_no_loss(values):
    assert extent(*values).unresolved() == ""
