"""Contenders that train with a replay: ours and the peers'."""

import dataclasses
import itertools

import pytest

from benchmarks.contenders import off_policy_ours as ours
from benchmarks.inside import session
from benchmarks.measure import rows
from benchmarks.work import environments
from benchmarks.work.off_policy import OffPolicy
from tests.support import peers
from tfagents_batch.clocks import Ratio
from tfagents_batch.envs.tf import names
from tfagents_batch.schedules import Linear

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
ALL = {name: row.work for name, row in {**rows.DQN, **rows.ACTOR_CRITIC}.items()}


@pytest.fixture(
    scope="module",
    params=["dqn", *(pytest.param(x, marks=pytest.mark.slow) for x in ("sac", "td3"))],
)
def trained(request):
    result = session.run(lambda: None, ours.start, WORKS[request.param])
    return result | {"algorithm": request.param}


def mlp(inputs, outputs):
    return (inputs * 5 + 5) + (5 * 5 + 5) + (5 * outputs + outputs)


def test_our_contender_reports_its_transitions_its_work_and_its_returns(trained):
    count = trained["count"]
    assert TINY.first_block <= count["warm_up"] < TINY.first_block + TINY.num_envs
    assert 3 * TINY.block <= count["steady"] < 3 * (TINY.block + TINY.num_envs)
    rate = count["steady"] / trained["phases"]["steady"]
    assert trained["value"] == pytest.approx(rate)
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
    module = {"sb3": "stable_baselines3"}.get(library, library)
    algorithm = trained["algorithm"]
    for name in (f"{algorithm}_{library}", f"{algorithm}_{library}_several"):
        result = peers.run(name, WORKS[algorithm], module)
        assert result["same"] == trained["same"]
        assert not result.get("differs")


def test_our_contender_refuses_a_wrong_number_of_updates():
    good = {"grad/updates": 0.5, "grad/skipped": 0.0}
    ours.check(TINY, 18, 34, 8, good)  # 4 updates in 8 rounds
    ours.check(TINY, 0, 18, 9, {})  # the warm-up has none
    with pytest.raises(RuntimeError, match=r"^4 updates.*expected 5"):
        ours.check(TINY, 18, 38, 8, good)
    for name in ("grad/skipped", "grad/actor_skipped"):
        with pytest.raises(RuntimeError, match=r"^4 updates, 0\.5 skipped"):
            ours.check(TINY, 18, 34, 8, {**good, name: 0.5})


def test_the_game_of_the_peers_has_the_spaces_and_the_limit_of_ours():
    game = ours.described(ours.config(ALL["dqn-breakout-minatar"], in_graph=True))
    assert game["id"] == "tf/MinAtar/Breakout-v1"
    assert game["time_limit"] == environments.MINATAR_LIMIT
    pytest.importorskip("minatar")
    theirs = environments.minatar("MinAtar/Breakout-v1")
    own = names.make(game["id"])
    assert theirs.observation_space == own.observation_space
    assert theirs.action_space == own.action_space
    assert theirs.spec.max_episode_steps == own.max_episode_steps


def test_peers_make_the_updates_of_the_work_with_any_possible_number_of_environments():
    for work, several in itertools.product(ALL.values(), (False, True)):
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
    with pytest.raises(ValueError, match="3 environments cannot train 1 times in 4"):
        TINY.calls(3)
    with pytest.raises(ValueError, match="3 environments cannot make 10 updates"):
        TINY.target_steps(3)


def test_updates_and_epsilon_are_those_of_our_algorithm():
    ratio = Ratio(TINY.train_updates, TINY.train_every, TINY.warmup_steps)
    for before, after in ((0, 17), (16, 23), (23, 55), (0, 100)):
        due = ratio.due(TINY.warmup_steps, before, after)
        assert TINY.updates_due(before, after) == int(due)
    for step in (0, 1234, 10**6):
        epsilon = float(Linear(*TINY.epsilon)(step))
        assert TINY.exploration(step) == pytest.approx(epsilon)
    for row in rows.DQN.values():  # its ramp ends before the measurement
        assert row.work.exploration(row.work.first_block) == row.work.epsilon[1]
