import functools
import pathlib
import re

import gymnasium
import gymnasium.spaces as gs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tfagents_batch as tfb
from tests.support.space_env import SpaceEnv
from tfagents_batch import spaces
from tfagents_batch.envs import wrappers
from tfagents_batch.envs.contract import rollout
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.envs.worker import construction
from tfagents_batch.envs.wrappers import layers, named
from tfagents_batch.errors import UserError

PAGE = pathlib.Path(__file__).parents[3] / "docs/concepts/wrappers.md"


class Script(gymnasium.Env):
    """Environment that repeats a list of observations, in one reused array.

    The rewards are 1, 2, ...; an episode ends with the list, by the flag ``end``.
    """

    def __init__(self, observations, space, action_space=None, end="terminated"):
        self.observation_space = space
        self.action_space = action_space or gs.Discrete(2)
        self.actions = []
        self.resets = []
        self.colour = "green"
        self._script = [np.asarray(x, space.dtype) for x in observations]
        self._buffer = np.zeros(space.shape, space.dtype)
        self._end = end
        self._step = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets.append(seed)
        self._step = 0
        return self._observation(), {"episode": len(self.resets)}

    def step(self, action):
        self.actions.append(action)
        self._step += 1
        last = self._step == len(self._script) - 1
        flags = last and self._end == "terminated", last and self._end == "truncated"
        return self._observation(), float(self._step), *flags, {"step": self._step}

    def _observation(self):
        self._buffer[...] = self._script[self._step]
        return self._buffer


class Echo(gymnasium.Env):
    """Environment that observes its last action, to test maps of actions."""

    def __init__(self, action_space):
        self.action_space = self.observation_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.action_space.low, {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return action, 0.0, False, False, {}


def box(low, high, shape=(1,), dtype=np.float32):
    return gs.Box(low, high, shape, dtype)


def numbers(*observations, dtype=np.float32, high=100, **options):
    """Return an environment that observes one number, ``[1]``."""
    return Script(
        [[x] for x in observations], box(0, high, dtype=dtype), None, **options
    )


def play(env, steps, action=0, seed=1):
    """Return the checked observations of a reset and ``steps`` steps, not copied."""
    found = [env.reset(seed=seed)[0]]
    for _ in range(steps):
        found.append(env.step(action)[0])
    for observation in found:
        assert env.observation_space.contains(observation), observation
    return found


def values(observations):
    return [np.asarray(x).tolist() for x in observations]


def test_the_step_after_the_end_restarts_and_ignores_its_action():
    env = wrappers.AutoReset(numbers(5, 6, 7, end="truncated"))
    env.reset(seed=1)
    env.step(0)
    observation, reward, *flags, _ = env.step(1)
    assert (observation.tolist(), reward, flags) == ([7], 2.0, [False, True])
    observation, reward, *flags, info = env.step(1)
    assert (observation.tolist(), reward, flags) == ([5], 0.0, [False, False])
    assert info == {"episode": 2}
    assert env.unwrapped.actions == [0, 1]  # two steps, the third was a restart
    assert env.step(0)[0].tolist() == [6]


def test_the_first_step_starts_an_environment_that_was_not_reset():
    env = wrappers.AutoReset(numbers(5, 6))
    assert env.step(0)[:2] == ([5], 0.0)
    assert env.unwrapped.resets == [None]


def test_restarts_in_a_batch_are_the_same_with_and_without_auto_reset():
    makers = [lambda: CountingEnv(3), lambda: wrappers.AutoReset(CountingEnv(3))]
    with tfb.make_env(makers, num_workers=0) as env:
        steps = rollout(env, 9, seed=1).steps
    assert steps.first.sum() == 6
    for column in (steps.observation, steps.reward, steps.first, steps.terminated):
        np.testing.assert_array_equal(column[:, 0], column[:, 1])


@pytest.mark.parametrize("restart", [wrappers.AutoReset, gymnasium.wrappers.Autoreset])
@pytest.mark.parametrize(
    "wrap",
    [
        wrappers.AutoReset,
        functools.partial(wrappers.ActionRepeat, amount=2),
        functools.partial(wrappers.RandomStart, max_steps=2),
        functools.partial(wrappers.FrameHistory, past_indices=[0, 1]),
        wrappers.FrameDelta,
        functools.partial(wrappers.LimitDuration, max_episode_steps=2),
    ],
)
def test_wrappers_with_state_refuse_environments_that_restart_themselves(wrap, restart):
    inner = gymnasium.Wrapper(restart(numbers(1, 2)))
    with pytest.raises(UserError, match=r"cannot wrap Auto[rR]eset, .* outermost"):
        wrap(inner)


@settings(deadline=None)
@given(amount=st.integers(1, 6), length=st.integers(1, 9), truncate=st.booleans())
def test_action_repeat_equals_repeated_steps(amount, length, truncate):
    repeated = wrappers.ActionRepeat(CountingEnv(length, truncate), amount)
    plain = CountingEnv(length, truncate)
    repeated.reset(seed=1)
    plain.reset(seed=1)
    over = False
    while not over:
        observation, reward, terminated, truncated, _ = repeated.step(1)
        total = 0.0
        for _ in range(amount):
            expected = plain.step(1)
            total += expected[1]
            if expected[2] or expected[3]:
                break
        np.testing.assert_array_equal(observation, expected[0])
        assert (reward, terminated, truncated) == (total, *expected[2:4])
        over = terminated or truncated


def test_an_inner_time_limit_is_reported_in_outer_steps():
    limited = wrappers.LimitDuration(numbers(*range(20)), 10)
    env = wrappers.ActionRepeat(limited, 4)
    assert layers.time_limit(env) == 3
    assert layers.time_limit(gymnasium.Wrapper(env)) == 3
    registered = wrappers.ActionRepeat(gymnasium.make("Pendulum-v1"), 4)
    assert layers.time_limit(gymnasium.Wrapper(registered)) == 50
    assert layers.time_limit(wrappers.ActionRepeat(numbers(1, 2), 4)) is None


def test_random_start_takes_fewer_than_max_steps_actions():
    env = wrappers.RandomStart(numbers(*range(30)), 5)
    counts, taken = [], set()
    for episode in range(100):
        env.unwrapped.actions.clear()
        observation, info = env.reset(seed=1 if episode == 0 else None)
        counts.append(info["random_start_steps"])
        assert observation.tolist() == [counts[-1]]
        assert len(env.unwrapped.actions) == counts[-1]
        taken.update(map(int, env.unwrapped.actions))
    assert set(counts) == {0, 1, 2, 3, 4} and taken == {0, 1}
    assert env.step(0)[0].tolist() == [counts[-1] + 1]


def test_random_starts_depend_on_the_seed_of_each_environment():
    draws = []
    for index in (0, 1, 2, 0):
        env = wrappers.RandomStart(numbers(*range(99)), 90)
        env.reset(seed=construction.env_seed(7, index))
        draws.append([env.reset()[1]["random_start_steps"] for _ in range(8)])
    assert draws[0] == draws[3]
    assert draws[0] != draws[1] != draws[2] != draws[0]
    assert len(set(draws[0])) > 1  # the generator continues


def test_seeding_the_visible_action_space_changes_no_random_action():
    def actions(disturb):
        env = wrappers.RandomStart(numbers(*range(99)), 90)
        env.reset(seed=3)
        if disturb:
            env.action_space.seed(11)
        env.reset()
        return list(map(int, env.unwrapped.actions))

    assert actions(disturb=True) == actions(disturb=False)


def test_an_episode_that_ends_in_its_random_start_restarts_without_the_seed():
    env = wrappers.RandomStart(numbers(0, 1, 2), 4, retries=50)
    for seed in range(20):
        _, info = env.reset(seed=seed)
        assert info["random_start_steps"] < 2  # the second step ends the episode
    resets = env.unwrapped.resets
    assert len(resets) > 20 and [x for x in resets if x is not None] == [*range(20)]


def test_random_starts_that_never_succeed_raise():
    env = wrappers.RandomStart(numbers(0, 1), 10**6, retries=3)
    with pytest.raises(RuntimeError, match=r"4 episodes in a row ended .* max_steps"):
        env.reset(seed=1)


def test_flattened_frames_are_joined_along_the_first_axis():
    space = gs.Box(np.float32([0, -1]), np.float32([9, 1]))
    env = Script([[1, 0.5], [2, -0.5]], space)
    env = wrappers.FrameHistory(env, (0, 1), flatten=True)
    assert values(play(env, 1)) == [[1, 0.5, 1, 0.5], [2, -0.5, 1, 0.5]]
    assert env.observation_space.low.tolist() == [0, -1, 0, -1]
    assert env.observation_space.high.tolist() == [9, 1, 9, 1]


indices = st.lists(st.integers(0, 7), max_size=5).map(lambda x: [*x, 0])


@settings(deadline=None)
@given(indices, st.randoms(), st.integers(0, 12))
def test_frame_history_selects_past_observations(chosen, random, steps):
    random.shuffle(chosen)
    sequence = random.choices(range(100), k=steps + 2)
    env = wrappers.FrameHistory(numbers(*sequence), chosen)
    for t, observation in enumerate(play(env, steps)):
        expected = [sequence[max(t - i, 0)] for i in chosen]
        assert observation[:, 0].tolist() == expected
    assert env.observation_space == box(0, 100, (len(chosen), 1))
    assert set(env.reset()[0].ravel()) == {sequence[0]}  # no frame of the last episode


def test_frame_history_keeps_the_dtypes_of_any_space():
    space = gs.Dict(
        a=gs.Tuple([gs.Discrete(4, start=2), box(-1, 1, ()), gs.MultiDiscrete([3, 4])]),
        b=gs.Tuple([gs.MultiBinary(3), box(0, 255, (4, 4, 3), np.uint8)]),
        c=box(0, 1, (2,), np.float64),
    )
    seen = play(wrappers.FrameHistory(SpaceEnv(space, length=9), [0, 3, 1]), 6)
    leaves, seen = spaces.leaves(space), [spaces.flatten(space, x) for x in seen]
    for now in seen:
        for leaf, new in zip(leaves, now, strict=True):
            assert new.dtype == leaf.space.dtype and new.shape == (3, *leaf.shape)
    # The current frame is the one of three steps ago, three steps later.
    for now, later in zip(seen, seen[3:], strict=False):
        for new, old in zip(now, later, strict=True):
            np.testing.assert_array_equal(new[0], old[1])


@pytest.mark.parametrize("reset_value, first", [("raw", 7), ("zeros", 0)])
def test_frame_delta_observes_changes_after_a_raw_value_or_zero(reset_value, first):
    """[5, 10] has differences in [-5, 5] only; a raw first value lies above."""
    env = wrappers.FrameDelta(Script([[7], [10], [5]], box(5, 10)), reset_value)
    assert values(play(env, 2)) == [[first], [3], [-5]]
    assert values([env.reset()[0]]) == [[first]]
    assert env.observation_space == box(-5, 10 if reset_value == "raw" else 5)


@pytest.mark.parametrize(
    "dtype, wide",
    [
        ("int8", "int16"),
        ("uint8", "int16"),
        ("uint16", "int32"),
        ("int32", "int64"),
        ("int64", "int64"),
        ("float64", "float64"),
    ],
)
def test_differences_have_a_dtype_that_fits_them(dtype, wide):
    env = wrappers.FrameDelta(numbers(0, 100, 0, dtype=dtype))
    assert values(play(env, 2)) == [[0], [100], [-100]]
    assert env.observation_space.dtype == wide


def test_bytes_are_scaled_without_overflow():
    """2 * 200 / 255 - 1; in uint8 it would be -0.435."""
    env = numbers(200, 0, 255, dtype=np.uint8, high=255)
    seen = play(wrappers.RangeNormalize(env), 2)
    np.testing.assert_allclose(seen, [[0.56862745], [-1], [1]], rtol=1e-6)
    assert seen[0].dtype == np.float32


def test_observations_and_actions_are_scaled_by_their_bounds():
    """[2, 6]: 3 is a quarter of the way up; [-4, 4]: 0.5 is 2 above the middle."""
    env = Script([[3], [7]], box(2, 6), box(-4, 4))
    wrapped = wrappers.RangeNormalize(env)
    assert wrapped.action_space == wrapped.observation_space == box(-1, 1)
    assert wrapped.reset(seed=1)[0].tolist() == [-0.5]
    # Values outside the bounds are scaled, not clipped.
    assert wrapped.step(np.float32([0.5]))[0].tolist() == [1.5]
    wrapped.reset()
    wrapped.step(np.float32([-1.25]))
    assert values(env.actions) == [[2], [-5]]
    same = wrappers.RangeNormalize(env, observation=False, action=False)
    assert values(play(same, 0)) == [[3]]
    assert (same.observation_space, same.action_space) == (box(2, 6), box(-4, 4))


def test_equal_bounds_scale_to_zero_and_to_their_only_action():
    space = gs.Box(np.float32([3, 0]), np.float32([3, 4]))
    env = Script([[3, 1], [3, 4]], space, space)
    wrapped = wrappers.RangeNormalize(env, observation=True, action=True)
    assert values(play(wrapped, 1, np.float32([0.7, 1]))) == [[0, -0.5], [0, 1]]
    assert values(env.actions) == [[3, 4]]


@pytest.mark.parametrize("bound", [np.inf, 1e30, 3.4e38])
def test_infinite_and_huge_bounds_are_not_scaled_or_are_refused(bound):
    space = gs.Box(np.float32([0, -bound]), np.float32([1, 1]))
    env = Script([[1, 2], [0, -9]], space, space)
    wrapped = wrappers.RangeNormalize(env)
    assert wrapped.observation_space == wrapped.action_space == space
    assert values([wrapped.reset(seed=1)[0]]) == [[1, 2]]
    assert values([wrapped.step(np.float32([0.5, 7]))[0]]) == [[0, -9]]
    assert values(env.actions) == [[0.5, 7]]
    for field in ("observation", "action"):
        with pytest.raises(UserError, match=rf"{field}=True.* bounds that are not fin"):
            wrappers.RangeNormalize(env, **{field: True})


def test_integer_actions_are_rounded():
    env = Script([[3]] * 4, box(2, 6), box(0, 10, dtype=np.int32))
    wrapped = wrappers.RangeNormalize(env)
    wrapped.reset(seed=1)
    for unit in (-1, 0.05, 0.99):
        wrapped.step(np.float32([unit]))
    assert values(env.actions) == [[0], [5], [10]]
    assert env.actions[0].dtype == np.int32


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@settings(deadline=None)
@given(data=st.data())
def test_scaling_to_the_unit_range_and_back_gives_the_action(dtype, data):
    number = st.integers(-(10**4), 10**4)
    if np.dtype(dtype).kind == "f":
        width = 8 * np.dtype(dtype).itemsize
        number = st.floats(-(2.0**66), 2.0**66, width=width)
    low, high = sorted((data.draw(number), data.draw(number)))
    value = np.array([data.draw(st.sampled_from([low, high])), low], dtype)
    env = wrappers.RangeNormalize(Echo(box(low, high, (2,), dtype)))
    env.reset(seed=1)
    unit = env._action.to_unit(value)
    assert env.action_space.contains(unit)
    observed = env.step(unit)[0]  # Echo refuses values outside its space
    assert env.observation_space.contains(observed)
    np.testing.assert_allclose(observed, unit, atol=1e-6 if low < high else 0)
    if np.dtype(dtype).kind == "f" and low < high:
        action = np.full(2, data.draw(st.floats(-1, 1, width=32)), np.float32)
        env.step(action)
        # Compare only if the dtype has enough numbers between the bounds.
        if high - low > max(1e-3 * max(abs(low), abs(high)), 1e-30):
            np.testing.assert_allclose(env.step(action)[0], action, atol=1e-3)


@pytest.mark.parametrize("wrap", [wrappers.RangeNormalize, wrappers.ClipAction])
def test_an_action_of_a_wrong_shape_is_not_broadcast(wrap):
    env = wrap(Echo(box(-2, 2, (3,))))
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"action has shape \[1\]; .* the space, \[3"):
        env.step(np.float32([1]))


def test_actions_are_clipped_and_the_clipped_fraction_is_reported():
    env = Script([[0]] * 5, box(0, 1), box(-2, 3, (4,)))
    wrapped = wrappers.ClipAction(env)
    assert wrapped.action_space == box(-np.inf, np.inf, (4,))
    assert wrapped.reset(seed=1)[1] == {"episode": 1, "action_clipped_fraction": 0.0}
    info = wrapped.step(np.float32([-9, 0.5, 3, 4]))[4]
    assert info == {"step": 1, "action_clipped_fraction": 0.5}
    assert values(env.actions) == [[-2, 0.5, 3, 3]]
    assert wrapped.step(np.zeros(4, np.float32))[4]["action_clipped_fraction"] == 0
    wide = wrappers.ClipAction(Echo(box(-0.1, 0.1, (1,), np.float64)))
    wide.reset(seed=1)
    assert wide.step(np.float32([5]))[0] == [0.1]  # Echo refuses another dtype


def test_gymnasiums_wrappers_differ_as_the_page_says():
    rescale, one = gymnasium.wrappers.RescaleObservation, np.float32(1)
    scale = functools.partial(rescale, min_obs=-one, max_obs=one)
    with pytest.raises((ValueError, OverflowError)):  # integers
        scale(numbers(1, 2, dtype=np.uint8))
    space = gs.Box(np.float32([3, 0]), np.float32([3, 4]))  # one has equal bounds
    with np.errstate(all="ignore"):
        seen, _ = scale(Script([[3, 1], [3, 4]], space)).reset(seed=1)
    assert np.isnan(seen[0]) and seen[1] == -0.5
    clipped = gymnasium.wrappers.ClipAction(Script([[0]] * 2, box(0, 1), box(-2, 3)))
    clipped.reset(seed=1)
    assert clipped.step(np.float32([9]))[4] == {"step": 1}  # not how much
    limited = gymnasium.wrappers.TimeLimit(numbers(0, 1, 2), 2)
    limited.reset(seed=1)
    limited.step(0)
    assert limited.step(0)[2:4] == (True, True)


@pytest.mark.parametrize("end", ["terminated", "truncated"])
@pytest.mark.parametrize("limit", [2, 3, 9])
def test_the_limit_truncates_and_stepping_after_any_end_is_an_error(end, limit):
    env = wrappers.LimitDuration(numbers(0, 1, 2, 3, end=end), limit)
    with pytest.raises(RuntimeError, match=r"before reset\(\)"):
        env.step(0)
    for _ in range(2):
        env.reset(seed=1)
        flags = [env.step(0)[2:4] for _ in range(min(limit, 3))]
        truncated = end == "truncated" or limit == 2
        assert flags[:-1] == [(False, False)] * (len(flags) - 1)
        assert flags[-1] == (not truncated, truncated)
        with pytest.raises(RuntimeError, match="after the episode had ended"):
            env.step(0)


@pytest.mark.parametrize("limit, expected", [(50, 50), (500, 200)])
def test_outer_wrappers_report_the_time_limit(limit, expected):
    env = wrappers.LimitDuration(gymnasium.make("Pendulum-v1"), limit)
    for wrap in (lambda x: x, wrappers.ClipAction, gymnasium.wrappers.ClipAction):
        assert layers.time_limit(wrap(env)) == expected
        assert wrap(env).spec.max_episode_steps == expected
    bare = gymnasium.Wrapper(wrappers.LimitDuration(numbers(1, 2), 7))
    assert layers.time_limit(bare) == 7


def test_the_standard_stack_has_the_order_of_batch_ppo():
    env = wrappers.standard_stack(gymnasium.make("Pendulum-v1"), max_episode_steps=7)
    names = [type(layer).__name__ for layer in layers.walk(env)]
    assert names[:3] == ["ClipAction", "RangeNormalize", "LimitDuration"]
    assert layers.time_limit(env) == 7
    assert env.observation_space == box(-1, 1, (3,))
    assert env.action_space == box(-np.inf, np.inf)
    seen = play(env, 7, np.float32([5]))
    expected = play(gymnasium.make("Pendulum-v1"), 7, np.float32([2]))
    np.testing.assert_allclose(seen, expected / np.array([1, 1, 8]), rtol=1e-5)
    with pytest.raises(RuntimeError):
        env.step(np.float32([5]))


IMAGE, FREE = box(0, 255, (8, 8, 3), np.uint8), box(-np.inf, np.inf)
WIDE, PARTS = box(-np.inf, np.inf, (2,), np.float64), gs.Dict(a=box(-1, 1))


@pytest.mark.parametrize(
    "space, action_space, expected, expected_action",
    [
        (box(2, 6), gs.Discrete(3), box(-1, 1), gs.Discrete(3)),
        (gs.Discrete(4), box(-2, 2), gs.Discrete(4), FREE),
        (IMAGE, box(0, 5, (1,), np.int64), IMAGE, FREE),
        (box(0, 255, (9,), np.uint8), gs.MultiBinary(2), box(-1, 1, (9,)), None),
        (WIDE, PARTS, WIDE, PARTS),
    ],
)
def test_the_standard_stack_accepts_any_supported_space(
    space, action_space, expected, expected_action
):
    env = wrappers.standard_stack(SpaceEnv(space, action_space))
    assert env.observation_space == expected
    assert env.action_space == (expected_action or action_space)
    play(env, 2, env.action_space.sample())


def test_the_standard_stack_without_scaling_only_clips_actions():
    env = SpaceEnv(box(2, 6, dtype=np.float64), box(-2, 2))
    env = wrappers.standard_stack(env, normalize_ranges=False)
    assert env.observation_space == box(2, 6, dtype=np.float64)
    assert env.action_space == FREE


COUNT = "is .*; expected an integer, at least"
UNIT, DISCRETE, FOUR = box(0, 1), gs.Discrete(3), box(0, 1, (4,))
# Space, arguments and message of each wrapper.
REFUSED = {
    wrappers.ActionRepeat: [
        (UNIT, {"amount": amount}, f"amount {COUNT}") for amount in (0, 1.5, True)
    ],
    wrappers.RandomStart: [
        (UNIT, {"max_steps": 0}, f"max_steps {COUNT}"),
        (UNIT, {"max_steps": 2, "retries": -1}, COUNT),
    ],
    wrappers.FrameHistory: [
        (
            UNIT,
            {"past_indices": [1, 2]},
            r"past_indices is \[1, 2\]; expected st",
        ),
        (UNIT, {"past_indices": []}, "0 included"),
        (UNIT, {"past_indices": [0, -1]}, "one of past_indices is -1"),
        (UNIT, {"past_indices": [0, 1.5]}, "one of past_indices is 1.5"),
        (UNIT, {"past_indices": 3}, "past_indices is 3"),
        (DISCRETE, {"past_indices": [0], "flatten": True}, "Box"),
    ],
    wrappers.FrameDelta: [
        (DISCRETE, {}, "observation space is Discrete.* a Box"),
        (UNIT, {"reset_value": "none"}, "reset_value is 'none'"),
    ],
    wrappers.RangeNormalize: [
        (UNIT, {"action": "no"}, "action is 'no'; expected T"),
        (DISCRETE, {"observation": True}, r"=True, .*Discrete\(3\), is not a Box"),
    ],
    wrappers.ClipAction: [
        (space, {}, "ClipAction: the action space is")
        for space in (DISCRETE, box(0, 3, dtype=np.int32))
    ],
    wrappers.SelectEntries: [
        (
            FOUR,
            {"indices": []},
            r"indices is \[\]; expected a list of different nu",
        ),
        (FOUR, {"indices": [4]}, r"indices is \[4\]"),
        (FOUR, {"indices": [1, 1]}, r"indices is \[1, 1\]"),
        (FOUR, {"indices": [-1]}, "one of indices is -1"),
        (FOUR, {"indices": 2}, "indices is 2; expected a list"),
        (IMAGE, {"indices": [0]}, r"shape \[8, 8, 3\]; expected vectors"),
    ],
}


@pytest.mark.parametrize("wrap", REFUSED)
def test_invalid_arguments_and_spaces_of_wrappers_are_refused(wrap):
    for space, arguments, message in REFUSED[wrap]:
        with pytest.raises(UserError, match=message):
            wrap(SpaceEnv(space, space), **arguments)


def test_a_spec_recreates_all_wrappers():
    env = wrappers.RandomStart(gymnasium.make("Pendulum-v1"), 3, retries=5)
    env = wrappers.FrameDelta(env, reset_value="zeros")
    env = wrappers.FrameHistory(env, past_indices=[0, 2], flatten=True)
    env = wrappers.standard_stack(wrappers.ActionRepeat(env, 2), max_episode_steps=9)
    env = wrappers.AutoReset(env)
    specs = env.spec.additional_wrappers
    assert len(specs) == 8 and None not in [each.kwargs for each in specs]
    again = gymnasium.make(env.spec)
    assert again.spec.additional_wrappers == specs and str(again) == str(env)
    assert env.spec.max_episode_steps == 9


@pytest.mark.parametrize("reset_value", ["raw", "zeros"])
def test_later_steps_do_not_change_earlier_observations(reset_value):
    """Script returns the same array at every step."""

    def make():
        env = wrappers.FrameDelta(numbers(3, 5, 9, 4, 8), reset_value)
        return wrappers.RangeNormalize(wrappers.FrameHistory(env, [0, 1]))

    env = make()
    copied = [env.reset(seed=1)[0].copy()]
    copied += [env.step(0)[0].copy() for _ in range(4)]
    np.testing.assert_array_equal(play(make(), 4), copied)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint8])
def test_scalars_stay_arrays_without_axes(dtype):
    def make():
        return Script([1, 4, 2], box(0, 9, (), dtype), box(0, 9, (), dtype))

    for env in (
        wrappers.FrameDelta(make()),
        wrappers.FrameDelta(make(), "zeros"),
        wrappers.RangeNormalize(make()),
        wrappers.standard_stack(make()),
    ):
        assert env.observation_space.shape == env.action_space.shape == ()
        play(env, 2, np.array(0.5 if env.action_space.high < 9 else 5))
        taken = env.unwrapped.actions[0]
        assert isinstance(taken, np.ndarray) or "Delta" in str(env)
    history = wrappers.FrameHistory(make(), [0, 1])
    assert values(play(history, 1)) == [[1, 1], [4, 1]]


def test_seeds_and_options_pass_through_all_layers():
    env = Script([[3], [4], [5]], box(0, 9), box(-1, 1))
    seen = []
    reset = env.reset
    env.reset = lambda **given: seen.append(given) or reset(seed=given["seed"])
    env = wrappers.FrameHistory(wrappers.FrameDelta(env), [0])
    env = wrappers.AutoReset(wrappers.standard_stack(env, max_episode_steps=3))
    env.reset(seed=5, options={"x": 1})
    assert seen == [{"seed": 5, "options": {"x": 1}}]


def test_the_page_names_every_wrapper():
    text = PAGE.read_text()
    for name in named.NAMES:
        assert f"`{name}" in text, name
    (listed,) = re.findall(r"The names are (`.*?)\. A wrapper", text, re.DOTALL)
    known = {x for x in re.findall(r"\w+", listed) if hasattr(gymnasium.wrappers, x)}
    assert known == {*named.GYMNASIUM}  # an old Gymnasium has fewer
