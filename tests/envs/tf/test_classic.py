"""The classic control tasks against Gymnasium's, state by state."""

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.envs.tf.batches import ROWS, batch
from tfagents_batch import spaces

# Each id, and the form in which Gymnasium stores the state.
STATES = {
    "CartPole-v1": lambda state: np.array(state, np.float64),
    "Pendulum-v1": lambda state: np.array(state, np.float64),
    "Acrobot-v1": lambda state: np.array(state, np.float64),
    "MountainCar-v0": tuple,
    "MountainCarContinuous-v0": lambda state: np.array(state, np.float64),
}


@pytest.fixture(params=STATES)
def pair(request):
    """Id and Gymnasium's environment, without its time limit."""
    theirs = gymnasium.make(request.param, disable_env_checker=True)
    theirs.reset(seed=1)
    theirs.action_space.seed(1)
    yield request.param, theirs
    theirs.close()


def step_from(theirs, id, state, action):
    """Step Gymnasium's environment from a state; return the results."""
    inner = theirs.unwrapped
    inner.state = STATES[id](state)
    inner.steps_beyond_terminated = None  # otherwise CartPole gives no reward
    return inner.step(action)[:3]


def test_spaces_and_time_limit_equal_gymnasiums(pair):
    id, theirs = pair
    spec = tfb.make_env(f"tf/{id}").spec
    for role in ("observation_space", "action_space"):
        found, expected = getattr(spec, role), getattr(theirs, role)
        assert spaces.to_json(found) == spaces.to_json(expected)
    assert spec.max_episode_steps == gymnasium.spec(id).max_episode_steps


def test_transitions_equal_gymnasiums(pair):
    """Compare steps from the states of our episodes, and from random states."""
    id, theirs = pair
    ours = batch(id)
    state, _ = ours.init(1)
    random = np.random.default_rng(1)
    endings = 0
    for t in range(30):
        if t % 10 == 9:  # because random play reaches few states
            spread = random.normal(size=state.inner.shape) * 0.5
            wide = np.clip(state.inner + spread, *_bounds(id)).astype(np.float32)
            state = state._replace(inner=tf.constant(wide))
        if t % 7 == 0:  # one action for several steps gets further than noise
            actions = np.stack([theirs.action_space.sample() for _ in range(ROWS)])
        before, over = state.inner.numpy(), state.last.numpy()
        state, steps = ours.step(state, tf.constant(actions))
        for row in np.flatnonzero(~over):
            observation, reward, terminated = step_from(
                theirs, id, before[row], actions[row]
            )
            np.testing.assert_allclose(steps.observation[row], observation, 2e-5, 2e-5)
            np.testing.assert_allclose(steps.reward[row], reward, 1e-5, 1e-5)
            assert bool(steps.terminated[row]) == terminated
            endings += terminated
    assert endings or id != "CartPole-v1"


@pytest.mark.parametrize(
    ("id", "low", "high", "arguments"),
    [
        ("Acrobot-v1", [1.2, -0.7, -2, -2], [4.9, 0.7, 2, 2], {}),  # upright
        ("MountainCar-v0", [0.4, 0.0], [0.52, 0.07], {}),
        ("MountainCar-v0", [0.4, 0.0], [0.6, 0.07], {"goal_velocity": 0.03}),
        ("MountainCarContinuous-v0", [0.38, 0.0], [0.47, 0.07], {}),
        ("MountainCarContinuous-v0", [0.38, 0.0], [0.6, 0.07], {"goal_velocity": 0.03}),
        ("CartPole-v1", [2.3, -1, 0.1, -1], [2.5, 1, 0.2, 1], {}),
        (
            *("CartPole-v1", [2.3, -1, 0.1, -1], [2.5, 1, 0.2, 1]),
            {"sutton_barto_reward": True},
        ),
    ],
)
def test_episodes_end_where_gymnasiums_do(id, low, high, arguments):
    theirs = gymnasium.make(id, disable_env_checker=True, **arguments)
    theirs.reset(seed=1)
    theirs.action_space.seed(1)
    ours = batch(id, **arguments)
    state, _ = ours.init(1)
    random, ended = np.random.default_rng(1), []
    for _ in range(15):
        states = random.uniform(low, high, state.inner.shape).astype(np.float32)
        actions = np.stack([theirs.action_space.sample() for _ in states])
        _, steps = ours.step(state._replace(inner=tf.constant(states)), actions)
        for i, (start, action) in enumerate(zip(states, actions, strict=True)):
            _, reward, terminated = step_from(theirs, id, start, action)
            assert bool(steps.terminated[i]) == terminated, (start, action)
            np.testing.assert_allclose(steps.reward[i], reward, 1e-5, 1e-5)
            ended.append(terminated)
    assert 30 < sum(ended) < 270
    theirs.close()


def test_a_pendulum_falls_as_fast_as_gymnasiums():
    theirs = gymnasium.make("Pendulum-v1", g=3.7, disable_env_checker=True)
    ours = tfb.make_env("tf/Pendulum-v1", num_envs=1, env_kwargs={"g": 3.7})
    state, _ = ours.init(1)
    theirs.reset(seed=1)
    theirs.unwrapped.state = state.inner[0].numpy()
    for _ in range(20):
        observation = theirs.step(np.array([0.5], np.float32))[0]
        state, step = ours.step(state, tf.constant([[0.5]]))
    np.testing.assert_allclose(step.observation[0], observation, 1e-3, 1e-3)
    theirs.close()


def test_episodes_begin_where_gymnasiums_do(pair):
    id, theirs = pair
    found = np.concatenate([batch(id).init(i)[1].observation for i in range(25)])
    expected = np.stack([theirs.reset(seed=i)[0] for i in range(500)])
    spread = expected.std(0)
    # Means of 500 differ by about 0.06 standard deviations.
    assert np.all(np.abs(found.mean(0) - expected.mean(0)) <= 0.35 * spread + 1e-6)
    np.testing.assert_allclose(found.std(0), spread, rtol=0.2, atol=1e-6)
    assert np.all(found.min(0) >= expected.min(0) - 0.05 * (spread + 1e-6))
    assert np.all(found.max(0) <= expected.max(0) + 0.05 * (spread + 1e-6))


def test_episodes_are_cut_off_at_the_time_limit():
    env = tfb.make_env("tf/Pendulum-v1", env_kwargs={"max_episode_steps": 5})
    state, step = env.init(1)
    for t in range(1, 7):
        state, step = env.step(state, tf.zeros([1, 1]))
        assert bool(step.truncated[0]) == (t == 5)
        assert bool(step.first[0]) == (t == 6)


def _bounds(id):
    """Return the lowest and highest states, which Gymnasium never exceeds."""
    high = {
        "CartPole-v1": [2.4, 3, 0.2, 3],
        "Pendulum-v1": [10, 8],
        "Acrobot-v1": [np.pi, np.pi, 4 * np.pi, 9 * np.pi],
        "MountainCar-v0": [0.6, 0.07],
        "MountainCarContinuous-v0": [0.6, 0.07],
    }[id]
    low = -np.array(high)
    if id.startswith("Mountain"):
        low[0] = -1.2
    return low, high
