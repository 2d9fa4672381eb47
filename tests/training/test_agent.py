"""Tests of loaded agents: they act as in evaluations."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs

import tfagents_batch as tfb
from tests.support import growth, untrained
from tests.support.space_env import SpaceEnv
from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks

SMALL = {"num_envs": 2, "num_workers": 0, "eval_every": 0}
GRU = networks.NetworkConfig(core="gru", hidden=(8, 8), policy_scale=5.0)


class Recorder(gymnasium.Wrapper):
    """Wrapper that records the observations and actions of an agent."""

    def __init__(self, env, seen):
        super().__init__(env)
        self._episodes = seen

    def reset(self, **options):
        self._observation, info = self.env.reset(**options)
        self._episode = []
        self._episodes.append(self._episode)
        return self._observation, info

    def step(self, action):
        self._episode.append((self._observation, np.copy(action)))
        result = self.env.step(action)
        self._observation = result[0]
        return result


@pytest.fixture(scope="module")
def runs(tmp_path_factory, linear):
    """Return a feed-forward run with Discrete actions, a recurrent one with a Box."""
    logs = tmp_path_factory.mktemp("logs")
    wrappers = [{"name": "LimitDuration", "max_episode_steps": 20}]
    recurrent = SMALL | {"settings": {"network": GRU}, "wrappers": wrappers}
    return {
        "CartPole-v1": untrained.folder(linear, "CartPole-v1", logs, **SMALL),
        "Pendulum-v1": untrained.folder("ppo", "Pendulum-v1", logs, **recurrent),
    }


def recorded(run, env):
    """Return pairs of observation and action of an evaluation's longest episode."""
    seen = []

    def make():
        return Recorder(gymnasium.make(env), seen)

    tfb.evaluate(run, 2, env=make)
    return max(seen, key=len)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_predict_repeats_the_actions_of_an_evaluation(runs, env):
    agent = tfb.load(runs[env])
    assert agent.step == untrained.STEP
    episode, state = recorded(runs[env], env)[:30], None
    assert len(episode) >= 8
    for number, (observation, taken) in enumerate(episode):
        action, state = agent.predict(observation, state, number == 0)
        assert agent.action_space.contains(action)
        np.testing.assert_allclose(action, taken, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_rows_of_a_batch_are_independent_and_reset_at_episode_starts(runs, env):
    agent = tfb.load(runs[env])
    space = agent.observation_space
    space.seed(0)
    rows = np.stack([space.sample() for _ in range(3)])
    alone = [agent.predict(row)[0] for row in rows]
    _, state = agent.predict(rows[::-1])
    together, _ = agent.predict(rows, state, episode_start=[True, True, False])
    np.testing.assert_allclose(together[:2], alone[:2], rtol=1e-4, atol=1e-5)
    if env == "Pendulum-v1":  # its network is recurrent
        assert np.any(np.abs(together[2] - alone[2]) > 1e-4)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_batches_of_any_size_share_programs_and_give_the_same_actions(runs, env):
    agent = tfb.load(runs[env])
    space = agent.observation_space
    rows = np.random.default_rng(0).uniform(-1, 1, (16, *space.shape))
    rows = rows.astype(np.float32)
    whole, states = agent.predict(rows)
    for size in range(1, 17):
        actions, state = agent.predict(rows[:size])
        np.testing.assert_allclose(actions, whole[:size], rtol=1e-4, atol=1e-5)
        parts = zip(nest.flatten(state or ()), nest.flatten(states or ()), strict=True)
        for leaf, full in parts:
            np.testing.assert_allclose(leaf, full[:size], rtol=1e-4, atol=1e-5)
    if state is not None:
        state = nest.map(lambda x: x[:15], state)
    assert agent.predict(rows[:15], state=state)
    assert len(agent._programs) <= 6


@pytest.mark.parametrize(
    "algorithm, settings, remembers",
    [
        ("ppo", {}, False),
        ("ppo", {"exploration": "sde", "sde_every": 4}, True),
        ("td3", {}, False),
        ("td3", {"exploration": "ou"}, True),
    ],
)
def test_the_state_is_none_unless_the_next_action_depends_on_it(
    algorithm, settings, remembers, tmp_path
):
    small = SMALL | {"settings": settings}
    agent = tfb.load(untrained.folder(algorithm, "Pendulum-v1", tmp_path, **small))
    observation = np.zeros(3, np.float32)
    _, state = agent.predict(observation, deterministic=False)
    assert (state is not None) == remembers
    assert agent.predict(observation, state, deterministic=False)[0].shape == (1,)


def test_a_state_that_does_not_fit_is_refused(runs):
    agent = tfb.load(runs["Pendulum-v1"])
    rows = np.zeros((5, *agent.observation_space.shape), np.float32)
    _, state = agent.predict(rows)
    for fewer in (rows[0], rows[:2]):
        with pytest.raises(UserError, match=r"state .* of 5 rows.* \d observation"):
            agent.predict(fewer, state)
    with pytest.raises(UserError, match="the state has the structure"):
        agent.predict(rows, {"mine": np.zeros(5)})
    with pytest.raises(UserError, match=r"episode_start has 3 entries.*5"):
        agent.predict(rows, state, episode_start=[True, False, True])
    with pytest.raises(UserError, match="no observation"):
        agent.predict(rows[:0])


def test_samples_vary_and_the_mode_does_not(runs):
    agent = tfb.load(runs["CartPole-v1"])
    observation = np.array([0.01, 0.02, -0.03, 0.04], np.float32)
    modes = [agent.predict(observation)[0] for _ in range(4)]
    samples = [
        agent.predict(observation, deterministic=False)[0].item() for _ in range(40)
    ]
    assert len({mode.item() for mode in modes}) == 1
    assert set(samples) == {0, 1}  # not trained, so both are about equally likely


def test_make_env_returns_the_environment_of_the_run(runs):
    agent = tfb.load(runs["Pendulum-v1"])
    env = agent.make_env(render_mode="rgb_array")
    observation, _ = env.reset(seed=0)
    for _ in range(20):  # the limit of the run's wrapper
        observation, _, _, over, _ = env.step(agent.predict(observation)[0])
    assert over
    assert env.render().shape[2] == 3
    env.close()


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.zeros(3), r"observation value is float64 \[3\]; expected float32 \[4\]"),
        (np.zeros((2, 2, 4)), r"float64 \[2, 2, 4\]; expected float32 \[4\], or a"),
        ("no", "expected float32"),
        (np.array(["a"] * 4), "expected float32"),
        (np.float32([[0] * 4, [0, np.nan, 0, 0]]), "has NaN or infinity in row 1"),
        (np.float32([[0] * 4, [np.inf] * 4]), "has NaN or infinity in row 1"),
    ],
)
def test_an_observation_that_does_not_fit_is_refused(runs, observation, message):
    with pytest.raises(UserError, match=message):
        tfb.load(runs["CartPole-v1"]).predict(observation)


def test_predict_supports_nested_observations_and_actions(tmp_path, linear):
    space = gs.Dict(
        image=gs.Box(0, 255, (10, 10, 1), np.uint8),
        parts=gs.Tuple([gs.Discrete(3, start=1), gs.Box(-1, 1, (2,))]),
    )
    for action in (gs.MultiDiscrete([2, 3]), gs.Discrete(3, start=5)):

        def make(action=action):
            return SpaceEnv(space, action)

        run = untrained.folder(linear, make, tmp_path, **SMALL)
        with pytest.raises(UserError, match="your own code"):
            tfb.evaluate(run, 1)
        agent = tfb.load(run, env=make)
        chosen, _ = agent.predict(agent.observation_space.sample())
        assert agent.action_space.contains(chosen)
        with pytest.raises(UserError, match="does not have the structure of"):
            agent.predict({"image": np.zeros((10, 10, 1), np.uint8)})
        seen = agent.observation_space.sample()
        with pytest.raises(UserError, match="image is float64 with values that uint8"):
            agent.predict(dict(seen, image=np.full((10, 10, 1), 0.5)))


def test_make_env_refuses_an_environment_written_in_tensorflow(tmp_path, linear):
    run = untrained.folder(linear, "tf/CartPole-v1", tmp_path, num_envs=2)
    agent = tfb.load(run)
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=1)
    assert agent.action_space.contains(agent.predict(observation)[0])
    with pytest.raises(UserError, match="is a batch written in TensorFlow"):
        agent.make_env()


def test_predictions_keep_no_memory(runs):
    agent = tfb.load(runs["CartPole-v1"])
    observation = np.zeros(4, np.float32)
    assert growth.kept(lambda: agent.predict(observation)) < 0.5
