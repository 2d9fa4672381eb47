"""Contenders that train: ours, and what peers get and report."""

import dataclasses
import os

import pytest

from benchmarks.contenders import batch_ppo, off_policy_ours, ppo_ours, sbx
from benchmarks.inside import sb3, session
from benchmarks.measure import duel, process, rows
from benchmarks.work.off_policy import OffPolicy
from benchmarks.work.works import OBJECTIVE, Training
from tests.support import peers
from tfagents_batch.clocks import Ratio
from tfagents_batch.schedules import Linear

SHORT = {"num_envs": 2, "num_workers": 0, "seconds": 0.0, "blocks": 3}
PPO = Training(
    "CartPole-v1",
    rollout_length=32,
    epochs=2,
    minibatch_size=16,
    steps=256,
    hidden=(4,),
    **SHORT,
)
DQN = OffPolicy(
    "CartPole-v1",
    batch_size=8,
    train_every=4,
    train_updates=1,
    steps=160,
    block=32,
    warmup_steps=18,
    target_every=10,
    capacity=200,
    hidden=(5, 5),
    **SHORT,
)
PENDULUM = dataclasses.replace(
    DQN,
    env="Pendulum-v1",
    env_kwargs={"max_episode_steps": 10},
    target_tau=0.1,
    gradient_norm=None,
)
WORKS = {
    "ppo": PPO,
    "dqn": DQN,
    "sac": dataclasses.replace(PENDULUM, algorithm="sac", target_entropy=-1.0),
    "td3": dataclasses.replace(PENDULUM, algorithm="td3", policy_delay=2),
    "tqc": dataclasses.replace(
        PENDULUM, algorithm="tqc", target_entropy=-1.0, quantiles=3, dropped=1
    ),
    "droq": dataclasses.replace(
        PENDULUM,
        algorithm="sac",
        target_entropy=-1.0,
        train_updates=2,
        policy_delay=2,
        dropout=0.1,
    ),
}
REPLAY = {**rows.DQN, **rows.ACTOR_CRITIC, **rows.DROQ}
ALL = {name: row.work for name, row in REPLAY.items()}
BATCH_PPO = rows.ROWS["ppo-batch-ppo-pendulum"].work


SLOW = [
    pytest.param(name, marks=pytest.mark.slow) for name in ("sac", "td3", "tqc", "droq")
]


@pytest.fixture(scope="module", params=["ppo", "dqn", *SLOW])
def trained(request):
    ours = ppo_ours if request.param == "ppo" else off_policy_ours
    result = session.run(ours.start, WORKS[request.param])
    return result | {"algorithm": request.param}


def mlp(inputs, outputs, norms=0):
    """Parameters of a network, each of whose two hidden layers may have LayerNorm."""
    return (inputs * 5 + 5) + (5 * 5 + 5) + (5 * outputs + outputs) + norms * 2 * 5


def test_our_contender_reports_its_transitions_its_work_and_its_returns(trained):
    count, same, name = trained["count"], trained["same"], trained["algorithm"]
    if name == "ppo":
        assert 0 < count["warm_up"] <= PPO.batch
        assert 2 * PPO.batch < count["steady"] <= 3 * PPO.batch
        assert not trained["differs"]
    else:
        assert DQN.first_block <= count["warm_up"] < DQN.first_block + DQN.num_envs
        assert 3 * DQN.block <= count["steady"] < 3 * (DQN.block + DQN.num_envs)
        assert trained["own"]["env_steps_between_trainings"] == 2
    rate = count["steady"] / trained["phases"]["steady"]
    assert trained["value"] == pytest.approx(rate)
    low, high = (1, 500) if name in ("ppo", "dqn") else (-163, 0)
    assert low <= trained["returns"] <= high
    assert same["environment"]["wrappers"] == ["TimeLimit", "OrderEnforcing"]
    if name == "ppo":
        # Two towers 4 -> 4, with a head of two logits and a head of one value.
        assert same["parameters"] == 2 * (4 * 4 + 4) + (4 * 2 + 2) + (4 + 1)
        assert same["gradient_steps_an_iteration"] == 2 * 64 // 16
        assert same["samples_a_gradient_step"] == 16
        return
    critics, learned = 2 * mlp(3 + 1, 1), {"actor": "1/4", "temperature": "1/4"}
    parameters, updates, target_every, entropy = {
        "dqn": (mlp(4, 2), {}, 10, None),
        "sac": (mlp(3, 2) + critics, learned, 1, -1.0),
        "td3": (mlp(3, 1) + critics, {"actor": "1/8"}, 2, None),
        "tqc": (mlp(3, 2) + 2 * mlp(3 + 1, 3), learned, 1, -1.0),
        "droq": (mlp(3, 2) + 2 * mlp(3 + 1, 1, norms=2), learned, 1, -1.0),
    }[name]
    assert same["parameters"] == parameters
    values = "1/2" if name == "droq" else "1/4"
    assert same["updates_per_env_step"] == {"values": values, **updates}
    assert same["samples_an_update"] == 8
    assert same["updates_between_targets"] == target_every
    assert (same["learning_rate"], same["gamma"]) == (DQN.learning_rate, DQN.gamma)
    assert same["target_entropy"] == entropy
    assert (same["n_step"], same["double_q"]) == (1, False)


@pytest.mark.parametrize("trained", ["dqn", *SLOW], indirect=True, scope="module")
@pytest.mark.parametrize("library", ["sb3", "sbx"])
def test_peers_do_the_work_of_our_contender(trained, library):
    algorithm = trained["algorithm"]
    if (algorithm, library) == ("droq", "sb3"):
        return  # it has no dropout
    module = {"sb3": "stable_baselines3"}.get(library, library)
    name = f"{algorithm}_{library}"
    result = peers.run(name, WORKS[algorithm], module)
    duel._check_same(name, trained, result)
    declared = sbx.DIFFERS.get(algorithm, {}) if library == "sbx" else {}
    assert {*result["differs"]} == {*declared}


@pytest.mark.slow
def test_batch_ppo_does_the_work_of_our_contender():
    work = dataclasses.replace(
        BATCH_PPO,
        rollout_length=20,
        epochs=2,
        minibatch_size=10,
        chunk_length=5,
        hidden=(6, 5),
        **SHORT,
    )
    result = session.run(ppo_ours.start, work)
    same = result["same"]
    wrappers = ["ClipAction", "RangeNormalize", "LimitDuration"]
    wrappers += ["TimeLimit", "OrderEnforcing"]
    assert same["environment"]["wrappers"] == wrappers
    # Two towers 3 -> 6 -> 5, a mean with its standard deviation, and a value.
    towers = 2 * ((3 * 6 + 6) + (6 * 5 + 5))
    assert same["parameters"] == towers + (5 + 1) + 1 + (5 + 1)
    assert same["gradient_steps_an_iteration"] == 2 * 40 // 10
    assert same["samples_a_gradient_step"] == 10
    assert same["objective"] == OBJECTIVE
    assert {*result["differs"]} == {"minibatches"}  # the approximation
    pythons = {"batch_ppo": os.environ.get("TFAGENTS_BATCH_BATCH_PPO_PYTHON", "")}
    if process.python_of("batch_ppo", pythons) is None:
        pytest.skip("no batch-ppo (benchmarks.make_environments --name=batch_ppo)")
    theirs = process.run_contender("ppo_batch_ppo", work, 250, pythons)
    assert not isinstance(theirs, process.Failure), str(theirs)
    assert theirs["count"]["steady"] == work.blocks * work.batch
    duel._check_same("ppo_batch_ppo", result, theirs)
    assert theirs["returns"] == pytest.approx(theirs["returns"])  # not NaN


def test_our_contenders_refuse_a_wrong_number_of_updates():
    good = {"grad/updates": 0.5, "grad/skipped": 0.0}
    off_policy_ours.check(DQN, 18, 34, 8, good)  # 4 updates in 8 rounds
    off_policy_ours.check(DQN, 0, 18, 9, {})  # the warm-up has none
    with pytest.raises(RuntimeError, match=r"^4 updates.*expected 5"):
        off_policy_ours.check(DQN, 18, 38, 8, good)
    for name in ("grad/skipped", "grad/actor_skipped"):
        with pytest.raises(RuntimeError, match=r"^4 updates, 0\.5 skipped"):
            off_policy_ours.check(DQN, 18, 34, 8, {**good, name: 0.5})
    good = {"grad/updates": 6.0, "grad/skipped": 0.0}
    ppo_ours.check(PPO, 48, good)
    with pytest.raises(RuntimeError, match=r"^6 gradient steps.*expected 8"):
        ppo_ours.check(PPO, 49, good)
    with pytest.raises(RuntimeError, match=r"a fraction 0\.5 of them"):
        ppo_ours.check(PPO, 48, {**good, "grad/skipped": 0.5})


def test_every_block_of_peers_has_the_same_updates():
    for work in ALL.values():
        calls, updates = work.calls()
        steps = calls * work.num_envs
        assert updates * work.train_every == steps * work.train_updates
        assert work.block % steps == 0
        assert work.block // steps * updates % work.policy_delay == 0
    for row in rows.DQN.values():
        target = row.work.target_steps() * row.work.train_updates
        assert target == row.work.target_every * row.work.train_every


def test_updates_and_epsilon_are_those_of_our_algorithm():
    ratio = Ratio(DQN.train_updates, DQN.train_every, DQN.warmup_steps)
    for before, after in ((0, 17), (16, 23), (23, 55), (0, 100)):
        due = ratio.due(DQN.warmup_steps, before, after)
        assert DQN.updates_due(before, after) == int(due)
    for step in (0, 1234, 10**6):
        epsilon = float(Linear(*DQN.epsilon)(step))
        assert DQN.exploration(step) == pytest.approx(epsilon)
    for row in rows.DQN.values():  # its ramp ends before the measurement
        assert row.work.exploration(row.work.first_block) == row.work.epsilon[1]


def test_ours_has_the_losses_of_the_peers():
    config = ppo_ours.config(PPO, "float32", False)
    settings = config.settings
    assert settings.value_scale == 2 * PPO.value_scale  # of half the squared error
    assert settings.normalize_advantage
    assert not settings.normalize_observation and not settings.normalize_return
    assert config.eval_every == 0 and not config.compile_cache
    preset = ppo_ours.config(BATCH_PPO, "float32", False).settings
    assert preset.objective == "kl"
    a2c = ppo_ours.config(rows.ROWS["a2c-cartpole"].work, "float32", False).settings
    assert a2c.optimizer_epsilon == PPO.adam_epsilon


class Counting:
    """Session without training; its episodes return the number of iterations."""

    own, versions, same = {}, {}, {}

    def __init__(self, work):
        self.episodes = []

    def close(self):
        pass

    def block(self):
        self.episodes = [len(self.episodes) + 1] * (len(self.episodes) + 1)
        return 10


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_a_run_continues_for_its_time_but_its_returns_do_not(seconds):
    work = dataclasses.replace(PPO, seconds=seconds)
    result = session.run(Counting, work)
    steady = result["count"]["steady"]
    assert result["phases"]["steady"] >= seconds
    assert steady > 10 * PPO.blocks if seconds else steady == 10 * PPO.blocks
    assert result["returns"] == 1 + PPO.blocks  # warm-up included
    assert result["value"] == pytest.approx(steady / result["phases"]["steady"])


def test_only_the_last_fifth_of_the_episodes_counts():
    assert session.last_mean([0.0] * 8 + [1.0, 3.0]) == 2
    assert session.last_mean([5.0]) == 5
    assert session.last_mean([]) is None


def test_peers_get_the_hyperparameters_of_the_work():
    given = sb3.arguments(PPO)
    assert given["learning_rate"] == PPO.learning_rate
    assert (given["n_steps"], given["batch_size"]) == (32, 16)
    assert given["policy_kwargs"]["net_arch"] == {"pi": [4], "vf": [4]}
    assert given["policy_kwargs"]["optimizer_kwargs"] == {"eps": PPO.adam_epsilon}
    assert given["normalize_advantage"] is True
    work = rows.ROWS["dqn-cartpole"].work
    given = sb3.arguments(work)
    assert (given["learning_rate"], given["gamma"]) == (1e-4, 0.99)
    assert (given["batch_size"], given["tau"]) == (32, 1.0)
    # Stable-Baselines3's defaults:
    assert (given["buffer_size"], given["learning_starts"]) == (1_000_000, 100)
    assert (given["train_freq"], given["gradient_steps"]) == (1, 2)  # of 8 environments
    assert given["target_update_interval"] == 10_000
    ends = given["exploration_initial_eps"], given["exploration_final_eps"]
    assert ends == (1.0, 0.05)
    assert given["policy_kwargs"]["net_arch"] == [64, 64]


def test_the_row_of_batch_ppo_has_the_amounts_of_the_published_preset():
    given = batch_ppo.settings(BATCH_PPO, None)
    assert (given["num_agents"], given["update_every"]) == (30, 30)
    assert (given["batch_size"], given["chunk_length"]) == (20, 50)
    assert (given["max_length"], given["update_epochs"]) == (200, 25)
    assert given["policy_layers"] == given["value_layers"] == (200, 100)
    # Chunks take as many gradient steps as shuffled rows, also with restart rows.
    assert BATCH_PPO.gradient_steps(BATCH_PPO.batch) == 25 * (30 * 200 // 50) // 20
    assert BATCH_PPO.gradient_steps(BATCH_PPO.batch - BATCH_PPO.num_envs) == 150
