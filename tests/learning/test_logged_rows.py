"""What is learned from logged rows of random policies, without an environment."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.learning import gridworld
from tests.offline import timelines
from tfagents_batch.envs.make import make_env
from tfagents_batch.logged import collecting
from tfagents_batch.offline import table_reader
from tfagents_batch.offline.writer import RowLogger
from tfagents_batch.scripts import collect
from tfagents_batch.types import TimeStep

NAMES = "left", "right", "up", "down"
CELLS, ACTIONS, GOAL = gridworld.CELLS, gridworld.ACTIONS, gridworld.GOAL
MOVES = gridworld.POSSIBLE & gridworld.ACTING[:, np.newaxis]


def gridworld_rows(episodes=700, seed=0):
    """Return rows of a policy that takes every possible action equally often."""
    rng, chances = np.random.default_rng(seed), gridworld.chances()
    possible = [np.flatnonzero(x) for x in gridworld.POSSIBLE]
    names = [[NAMES[a] for a in each] for each in possible]
    rows = []
    for episode in range(episodes):
        cell, k = 0, 0
        while cell != GOAL:
            action = rng.choice(possible[cell])
            after = rng.choice(CELLS, p=chances[cell, action])
            row = {
                "ds": "2026-01-01",
                "mdp_id": f"e{episode}",
                "sequence_number": k,
                "state_features": {cell: 1.0},
                "action": NAMES[action],
                "action_probability": 1 / len(possible[cell]),
                "reward": float(after == GOAL),
                "possible_actions": names[cell],
                "terminated": bool(after == GOAL),
            }
            rows.append(row)
            cell, k = int(after), k + 1
    return rows


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    rows = gridworld_rows()
    options = {"gamma": gridworld.GAMMA, "train_share": 0.9, "eval_share": 0.1}
    return timelines.build(tmp_path_factory.mktemp("grid"), rows, **options)


ORDER = np.argsort(NAMES)  # that of the actions of a timeline


def step_of_all_cells():
    """Return a step with a row for each cell.

    Features are the cells that were visited, in order, so neither walls nor the goal.
    """
    cells = np.eye(CELLS, dtype=np.float32)[:, gridworld.ACTING]
    zeros, off = tf.zeros([CELLS]), tf.zeros([CELLS], tf.bool)
    observation = {
        "state": tf.constant(cells),
        "action_mask": tf.constant(gridworld.POSSIBLE[:, ORDER], tf.int8),
    }
    return TimeStep(observation, zeros, off, off, off, {})


@pytest.mark.parametrize(("target", "most"), [("sarsa", 0.02), ("max", 0.03)])
def test_values_of_the_gridworld_are_close_to_the_exact_ones(
    target, most, grid, tmp_path
):
    """SARSA learns the values of the policy that was logged, max those of the best."""
    run = tfb.train_offline(
        "dqn",
        grid,
        steps=1500,
        seed=1,
        eval_every=0,
        logdir=tmp_path,
        settings={
            "target": target,
            "gamma": gridworld.GAMMA,
            "loss": "squared",
            "learning_rate": "linear(2e-3, 0)",
            "network": {"hidden": (64, 64)},
            "histograms": False,
        },
    )
    agent = tfb.load(run.logdir)
    found = agent._policy.network(step_of_all_cells())[0].q.numpy()
    policy = gridworld.uniform() if target == "sarsa" else None
    expected = gridworld.action_values(policy)
    error = np.abs(found - expected[:, ORDER])[MOVES[:, ORDER]]
    assert error.mean() <= most, error


# Copies of the target network every 100 updates, as in fitted Q iteration.
FITTED = {"target": "max", "target_every": 100, "target_tau": 1.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("dqn", {}),
        ("dqn", {"cql_scale": 0.01}),
        ("dqn", FITTED),
        ("bcq", {"imitator": {"hidden": (64, 64)}}),
        ("crr_discrete", {"beta": 0.01}),
    ],
    ids=["dqn", "cql", "fqi", "bcq", "crr"],
)
def test_decisions_in_the_gridworld_are_nearly_the_best(
    algorithm, settings, grid, tmp_path
):
    """The exact value of the greedy policy is 98 % of the largest one or more."""
    settings = {
        "gamma": gridworld.GAMMA,
        "learning_rate": "linear(2e-3, 0)",
        "network": {"hidden": (64, 64)},
        "histograms": False,
    } | settings
    settings |= {"loss": "squared"} if algorithm != "crr_discrete" else {}
    options = {"steps": 3000, "eval_every": 0, "logdir": tmp_path}
    run = tfb.train_offline(algorithm, grid, settings=settings, **options)
    decided = tfb.load(run.logdir)._policy.decide(step_of_all_cells(), (), 0)
    policy = np.eye(ACTIONS)[ORDER[decided.action.numpy()]]
    values = gridworld.action_values(policy)
    assert (policy[0] * values[0]).sum() >= 0.463


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    """Return a function that returns the timeline of 30,000 rows of random play."""
    folder = tmp_path_factory.mktemp("cartpole")
    with make_env("CartPole-v1", 8) as env, RowLogger(folder / "rows") as logger:
        decide = collecting.uniform(env.spec, seed=1)
        collecting.collect(env, decide, logger, 30_000, 1, "2026-01-01")

    @functools.cache
    def table(n_step):
        return timelines.build(folder / str(n_step), folder / "rows", n_step=n_step)

    return table


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("preset", "n_step"), [("dqn", 1), ("cql", 20), ("bcq", 20)])
def test_rows_of_random_play_are_enough_for_cartpole(
    preset, n_step, cartpole, tmp_path
):
    """Mean return of at least 190 of 200, for four of five seeds.

    No checkpoint is played before the best one by its gain on the rows is chosen.
    """
    returns = []
    for seed in range(1, 6):
        run = tfb.train_offline(
            data=cartpole(n_step),
            config=f"rows/{preset}",
            seed=seed,
            logdir=tmp_path,
            settings={"histograms": False},
        )
        played = tfb.evaluate(
            run.logdir,
            env="CartPole-v1",
            checkpoint="best",
            episodes=100,
            max_episode_steps=200,
        )
        returns.append(played.mean_return)
    assert sum(x >= 190 for x in returns) >= 4, returns


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    """Return a timeline of 40,000 rows of a half-trained SAC, and their mean return.

    Its entropy is large, so that rows have other actions than its best ones. Of the
    checkpoints of a training, this one has a mean return near -700.
    """
    folder = tmp_path_factory.mktemp("pendulum")
    run = tfb.train(
        config="sac/pendulum",
        seed=1,
        steps=7000,
        keep_every=250,
        settings={"target_entropy": 0.6},
        logdir=folder,
    )
    rows = f"{folder}/rows"
    chosen = [f"--logdir={run.logdir}", "--checkpoint=4788", "--seed=5"]
    collect.main([*chosen, "--rows=40000", f"--output={rows}"])
    options = {"gamma": 0.97, "train_share": 0.9, "eval_share": 0.1}
    table = timelines.build(folder / "table", rows, mode="continuous", **options)
    rewards = table_reader.read(table_reader.partition(table))["reward"]
    return table, rewards.sum() / (len(rewards) / 200)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("preset", ["td3_bc", "iql", "cql_box", "crr"])
def test_rows_of_a_half_trained_agent_are_enough_for_pendulum(
    preset, pendulum, tmp_path
):
    """Mean return of at least -300 for each of three seeds, last checkpoints."""
    table, logged = pendulum
    returns = []
    for seed in range(1, 4):
        run = tfb.train_offline(
            data=table,
            config=f"rows/{preset}",
            seed=seed,
            eval_every=0,
            logdir=tmp_path,
            settings={"histograms": False},
        )
        played = tfb.evaluate(run.logdir, env="Pendulum-v1", episodes=100)
        returns.append(played.mean_return)
    print(preset, logged, returns)
    assert min(returns) >= max(-300, logged + 200), returns
