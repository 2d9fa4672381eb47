"""Contenders that train with a replay: ours and the peers', and parts of the peers'."""

import dataclasses
import sys
import types

import pytest

from benchmarks.contenders import off_policy_ours as ours
from benchmarks.inside import sb3, session
from benchmarks.measure import process, rows
from benchmarks.work import environments
from benchmarks.work.off_policy import OffPolicy
from tests.support import peers
from tfagents_batch.envs.tf import names
from tfagents_batch.schedules import Linear, Ratio

TINY = OffPolicy(
    "CartPole-v1",
    num_envs=2,
    batch_size=8,
    train_every=4,
    train_updates=1,
    steps=160,
    block=32,
    warmup_steps=18,
    target_every=10,
    capacity=200,
    hidden=(5, 5),
    num_workers=0,
    seconds=0.0,
    blocks=3,
)
PENDULUM = dataclasses.replace(
    TINY,
    env="Pendulum-v1",
    env_kwargs={"max_episode_steps": 10},
    target_tau=0.1,
    gradient_norm=None,
)
WORKS = {
    "dqn": TINY,
    "sac": dataclasses.replace(PENDULUM, algorithm="sac", target_entropy=-1.0),
    "td3": dataclasses.replace(PENDULUM, algorithm="td3", policy_delay=2),
}
ALL = {**rows.DQN, **rows.ACTOR_CRITIC}


def each(works):
    return pytest.mark.parametrize("row", works.values(), ids=[*works])


@pytest.fixture(
    scope="module",
    params=["dqn", *(pytest.param(x, marks=pytest.mark.slow) for x in ("sac", "td3"))],
)
def trained(request):
    found = session.run(lambda: None, ours.start, WORKS[request.param])
    return found | {"algorithm": request.param}


def mlp(inputs, outputs):
    return (inputs * 5 + 5) + (5 * 5 + 5) + (5 * outputs + outputs)


def test_our_contender_reports_its_transitions_its_work_and_its_returns(trained):
    count = trained["count"]
    assert count["compile"] == 0  # nothing is trained before the warm-up
    assert TINY.first_block <= count["warm_up"] < TINY.first_block + TINY.num_envs
    assert 3 * TINY.block <= count["steady"] < 3 * (TINY.block + TINY.num_envs)
    assert trained["value"] == pytest.approx(
        count["steady"] / trained["phases"]["steady"]
    )
    low, high = (1, 500) if trained["algorithm"] == "dqn" else (-163, 0)
    assert low <= trained["returns"] <= high
    same, critics = trained["same"], 2 * mlp(3 + 1, 1)
    parameters, updates, target_every, entropy = {
        "dqn": (mlp(4, 2), {}, 10, None),
        "sac": (mlp(3, 2) + critics, {"actor": "1/4", "temperature": "1/4"}, 1, -1.0),
        "td3": (mlp(3, 1) + critics, {"actor": "1/8"}, 2, None),
    }[trained["algorithm"]]
    assert same["environment"]["wrappers"] == ["TimeLimit", "OrderEnforcing"]
    assert same["parameters"] == parameters
    assert same["updates_per_env_step"] == {"values": "1/4", **updates}
    assert same["samples_an_update"] == 8
    assert same["updates_between_targets"] == target_every
    assert (same["learning_rate"], same["gamma"]) == (TINY.learning_rate, TINY.gamma)
    assert same["target_entropy"] == entropy
    assert (same["n_step"], same["double_q"]) == (1, False)
    assert trained["own"]["env_steps_between_trainings"] == 2


@pytest.mark.parametrize("library", ["sb3", "sbx"])
def test_peers_do_the_work_of_our_contender(trained, library):
    peers.require({"sb3": "stable_baselines3"}.get(library, library))
    algorithm = trained["algorithm"]
    work = WORKS[algorithm]
    for name in (f"{algorithm}_{library}", f"{algorithm}_{library}_several"):
        found = process.run_contender(name, work, 200, peers.PYTHONS)
        assert not isinstance(found, process.Failure), str(found)
        assert found["same"] == trained["same"]
        assert not found.get("differs")


def test_our_contender_refuses_a_wrong_number_of_updates():
    good = {"grad/updates": 0.5, "grad/skipped": 0.0}
    ours.check(TINY, 18, 34, 8, good)  # 4 updates in 8 rounds
    ours.check(TINY, 0, 18, 9, {})  # the warm-up has none
    with pytest.raises(RuntimeError, match=r"^4 updates.*expected 5"):
        ours.check(TINY, 18, 38, 8, good)
    for name in ("grad/skipped", "grad/actor_skipped"):
        with pytest.raises(RuntimeError, match=r"^4 updates, 0\.5 skipped"):
            ours.check(TINY, 18, 34, 8, {**good, name: 0.5})


def test_our_contender_in_the_graph_declares_its_environment():
    work = dataclasses.replace(rows.DQN["dqn-breakout-minatar"].work, capacity=1000)
    contender = ours.start(work, in_graph=True)
    try:
        convolution, units = 9 * 4 * 16 + 16, 8 * 8 * 16 * 128 + 128
        assert contender.same["parameters"] == convolution + units + 128 * 3 + 3
        found = contender.same["environment"]
        assert (found["id"], found["time_limit"]) == (
            "tf/MinAtar/Breakout-v1",
            environments.MINATAR_LIMIT,
        )
        assert {*contender.differs} == {"environment"}
        assert contender.own["workers"] == 0
    finally:
        contender.close()


def test_the_game_of_the_peers_has_the_spaces_and_the_limit_of_ours():
    pytest.importorskip("minatar")
    theirs = environments.minatar("MinAtar/Breakout-v1")
    own = names.make("tf/MinAtar/Breakout-v1")
    assert theirs.observation_space == own.observation_space
    assert theirs.action_space == own.action_space
    assert theirs.spec.max_episode_steps == own.max_episode_steps


@each(ALL)
@pytest.mark.parametrize("several", [False, True])
def test_peers_make_the_updates_of_the_work_with_any_number_of_environments(
    row, several
):
    work = row.work
    num_envs = work.num_envs if several else 1
    calls = work.calls(num_envs)
    steps = calls.train_freq * num_envs
    assert calls.gradient_steps * work.train_every == steps * work.train_updates
    assert work.block % steps == 0  # every block has the same updates
    assert work.block // steps * calls.gradient_steps % work.policy_delay == 0
    if work.algorithm == "dqn":
        target = work.target_steps(num_envs)
        assert target * work.train_updates == work.target_every * work.train_every
        assert target % num_envs == 0


def test_an_inexact_number_of_updates_is_refused():
    with pytest.raises(ValueError, match="3 environments cannot train 1 times in 4"):
        TINY.calls(3)
    with pytest.raises(ValueError, match="3 environments cannot make 10 updates"):
        TINY.target_steps(3)


@each(rows.DQN)
def test_epsilon_has_its_last_value_when_the_measurement_begins(row):
    work = row.work
    assert work.exploration(work.first_block) == work.epsilon[1]
    assert work.first_block < work.steps


def test_updates_and_epsilon_are_those_of_our_algorithm():
    ratio = Ratio(TINY.train_updates, TINY.train_every, TINY.warmup_steps)
    for before, after in ((0, 17), (16, 23), (23, 55), (0, 100)):
        assert TINY.updates_due(before, after) == int(
            ratio.due(TINY.warmup_steps, before, after)
        )
    for step in (0, 1234, 10**6):
        assert TINY.exploration(step) == pytest.approx(
            float(Linear(*TINY.epsilon)(step))
        )


class Model:
    """Peer without learning: it samples once for the updates of a training."""

    n_envs = 2
    learning_rate, gamma, tau = 1e-4, 0.99, 1.0
    exploration_schedule = staticmethod(lambda progress: None)

    def __init__(self, calls):
        self.num_timesteps = self.updates = 0
        self.train_freq = types.SimpleNamespace(frequency=calls.train_freq)
        self.gradient_steps = calls.gradient_steps
        self.replay_buffer = types.SimpleNamespace(
            sample=lambda size: types.SimpleNamespace(rewards=[0.0] * size)
        )
        self.epsilon = []

    def set_logger(self, logger):
        pass

    def get_env(self):
        return types.SimpleNamespace(close=lambda: None)

    def learn(self, steps, log_interval, reset_num_timesteps):
        assert log_interval is None and not reset_num_timesteps
        end = self.num_timesteps + steps
        while self.num_timesteps < end:
            self.num_timesteps += self.n_envs * self.train_freq.frequency
            self.epsilon.append(self.exploration_schedule(None))
            if self.num_timesteps > TINY.warmup_steps:
                self.replay_buffer.sample(TINY.batch_size * self.gradient_steps)
                self.updates += self.gradient_steps
        self.ep_info_buffer.append({"r": self.num_timesteps})


@pytest.mark.parametrize(
    "algorithm, target_calls, target_every", [("dqn", 20, 10), ("td3", None, 2)]
)
def test_peers_count_their_work_in_the_measured_blocks(
    monkeypatch, algorithm, target_calls, target_every
):
    for part in ("", ".common", ".common.logger"):
        module = types.ModuleType(f"stable_baselines3{part}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
    module.Logger = lambda *_: None
    work = WORKS[algorithm]
    model = Model(work.calls(2))

    def updates():
        found = {"values": model.updates, "actor": model.updates // 2}
        return found if algorithm == "td3" else {"values": model.updates}

    learning = sb3.off_policy(
        work, model, 57, updates, target_calls, {"threads": 1}, {}
    )
    found = session.run(lambda: None, lambda work: learning, work)
    assert found["count"] == {"compile": 0, "warm_up": 52, "steady": 96}
    same = found["same"]
    actor = {"actor": "1/8"} if algorithm == "td3" else {}
    assert same["updates_per_env_step"] == {"values": "1/4", **actor}
    assert same["samples_an_update"] == 8
    assert same["updates_between_targets"] == target_every
    assert same["parameters"] == 57
    if algorithm == "dqn":
        assert model.epsilon == [TINY.exploration(4 * i) for i in range(1, 38)]
    assert found["own"]["env_steps_between_trainings"] == 4


def test_peers_get_the_hyperparameters_of_the_work():
    work = ALL["dqn-cartpole"].work
    assert sb3.off_policy_arguments(work, types.SimpleNamespace(num_envs=1)) == {
        "buffer_size": 1_000_000,  # Stable-Baselines3's defaults
        "learning_starts": 100,
        "gamma": 0.99,
        "gradient_steps": 1,
        "seed": 1,
        "learning_rate": 1e-4,
        "batch_size": 32,
        "tau": 1.0,
        "train_freq": 4,
        "target_update_interval": 10_000,
        "exploration_initial_eps": 1.0,
        "exploration_final_eps": 0.05,
    }
