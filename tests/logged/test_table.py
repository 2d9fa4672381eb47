"""Logged rows as experience: draws, from memory and from files, and what is refused."""

import dataclasses
import functools
import itertools
import pathlib
import time

import gymnasium as gym
import numpy as np
import pyarrow
import pytest
import tensorflow as tf
from pyarrow import parquet

import tfagents_batch as tfb
from tests.offline import timelines
from tfagents_batch.algorithms import dqn
from tfagents_batch.algorithms.shared.sequences import Sequences
from tfagents_batch.configs import named
from tfagents_batch.errors import UserError
from tfagents_batch.logged import collecting, row_spaces, table
from tfagents_batch.logged.table import Sizes
from tfagents_batch.logged.table_settings import TableSettings
from tfagents_batch.offline import table_reader, timeline
from tfagents_batch.training.log.logger import read_metrics
from tfagents_batch.types import EnvSpec, TimeStep

SMALL = {"network": {"hidden": [16]}, "batch_size": 16, "histograms": False}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walks")
    return timelines.build(
        folder, timelines.walks(300), train_share=1.0, eval_share=0.0
    )


BLOCKS = {  # rows of each block
    "parts of a batch": (41, 27, 70, 13, 12),
    "a last block much smaller than a batch": (40, 72, 1),
    "all smaller than a batch": (3, 5, 1),
    "one smaller than a batch": (3,),
}


@pytest.mark.parametrize("blocks", BLOCKS.values(), ids=BLOCKS)
def test_all_rows_are_drawn_equally_often_whatever_the_blocks(blocks):
    sizes, passes = Sizes(blocks, 8), 400
    steps = tf.range(passes * sum(blocks) // 8, dtype=tf.int64)

    place = functools.partial(table.place, sizes)
    used, left = (x.numpy() for x in tf.vectorized_map(place, steps))
    each = np.array(blocks) / 8  # updates of a block in a pass
    error = np.sqrt(passes * np.minimum(each, 0.5))
    updates = np.bincount(used, minlength=len(blocks))
    assert (abs(updates - passes * each) <= 4 * error + 1).all(), updates
    goes_on = left[:-1] > 1
    np.testing.assert_array_equal(used[1:][goes_on], used[:-1][goes_on])
    if len(blocks) > 1:
        np.testing.assert_array_equal(left[1:][goes_on], left[:-1][goes_on] - 1)


def test_each_block_is_used_in_one_run_of_updates_in_a_pass():
    sizes = Sizes((40, 24, 72, 8), 8)
    used, left, rows = [], [], np.zeros([4, 72])

    @tf.function
    def draw(step):
        now = table.place(sizes, step)
        return *now, table.draw(sizes, tf.cast(step, tf.int32), now.block)

    for step in range(20 * 18):
        block, *more = (x.numpy() for x in draw(tf.constant(step, tf.int64)))
        used.append(int(block))
        left.append(int(more[0]))
        np.add.at(rows, (block, more[1]), 1)
    for first in range(0, 20 * 18, 18):
        assert np.bincount(used[first : first + 18]).tolist() == [5, 3, 9, 1]
        runs = [list(x) for _, x in itertools.groupby(used[first : first + 18])]
        assert len(runs) == 4
        expected = [k for run in runs for k in range(len(run), 0, -1)]
        assert left[first : first + 18] == expected
    assert used[:18] != used[18:36]
    for block, size in enumerate(sizes.blocks):
        assert not rows[block, size:].any()
    np.testing.assert_allclose(rows.sum(1) / sizes.blocks, 20)
    assert rows[2].min() > 20 / 2


def weights(run):
    return {
        k: np.asarray(x)
        for k, x in tfb.load(run.logdir)._policy.named_variables().items()
    }


WAYS = {  # rows stay in files, updates of a call, seconds to read a block
    "from files": (True, 25, 0),
    "from slow files, one update a call": (True, 1, 0.05),
    "one update a call": (False, 1, 0),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a function that returns the weights of a short training."""
    folder = tmp_path_factory.mktemp("walks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timeline, "ROW_GROUP", 2048)  # the least that DuckDB writes
        data = timelines.build(folder, timelines.walks(1700))

    def train(stream=False, updates=25):
        settings = SMALL | {"learning_rate": "linear(1e-2, 1e-4)", "batch_size": 128}
        # Several blocks of 12 or 13 updates, and a last one of fewer.
        table = {"stream": stream, "block_rows": 2048}
        options = {"steps": 60, "eval_every": 0, "log_every": updates}
        folder = tmp_path_factory.mktemp("runs")
        return weights(
            tfb.train_offline(
                "dqn", data, table=table, settings=settings, logdir=folder, **options
            )
        )

    return train


@pytest.fixture(scope="module")
def expected(trained):
    return trained()


@pytest.mark.parametrize("way", WAYS)
def test_one_seed_gives_the_same_weights(way, trained, expected, monkeypatch):
    stream, updates, seconds = WAYS[way]
    read, reads = table_reader.read, []

    def slow(*args, **options):
        reads.append(args)
        time.sleep(seconds)
        return read(*args, **options)

    monkeypatch.setattr(table_reader, "read", slow)
    found = trained(stream, updates)
    assert len(reads) >= 3
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5, err_msg=name)


def test_dqn_learns_the_way_and_the_best_checkpoint_has_the_largest_gain(tmp_path):
    data = timelines.build(tmp_path / "data", timelines.walks(300))
    options = {"steps": 600, "logdir": tmp_path, "eval_every": 100, "log_every": 200}
    settings = SMALL | {"target": "double"}
    run = tfb.train_offline("dqn", data, settings=settings, **options)
    agent = tfb.load(run.logdir)
    action, _ = agent.predict(np.eye(5, dtype=np.float32))
    assert action.tolist() == [1] * 5
    # It has no warm-up and no schedule, whose steps would be updates.
    sampled, _ = agent.predict(np.eye(5, dtype=np.float32), deterministic=False)
    assert sampled.tolist() == [1] * 5
    spec = EnvSpec(5, agent.observation_space, agent.action_space, {})
    decide = collecting.of_policy(agent._policy, spec, agent.step, 0.2, seed=1)
    no = tf.zeros([5], tf.bool)
    found = decide(TimeStep(tf.eye(5), tf.zeros([5]), no, no, no, {}), 0)
    expected = np.where(found.action == 1, 0.9, 0.1)
    np.testing.assert_allclose(np.exp(found.log_propensity), expected, rtol=1e-6)
    assert run.metrics["actions/model/right"] == 1
    assert run.metrics["time/gradient_steps_per_second"] > 0
    assert run.metrics["mc_loss/rmse"] >= run.metrics["mc_loss/mean"] > 0
    best = tfb.load(run.logdir, checkpoint="best").step
    reports = [x for x in read_metrics(run.logdir) if "actions/gain" in x]
    score = {x["step"]: x["actions/gain"] - x["actions/gain_error"] for x in reports}
    assert len(score) == 6 and score[best] == max(score.values())


def test_boosts_change_the_rewards_of_their_actions(data):
    settings = TableSettings(str(data), boosts={"left": 2.0})
    found = table_reader.partition(data)
    columns = table_reader.read(found)
    boosted = settings._preparation(found)[0](columns)
    added = boosted["reward"] - columns["reward"]
    np.testing.assert_array_equal(added, np.where(columns["action"] == 0, 2.0, 0.0))


def test_boosts_are_refused_where_a_sample_has_several_rewards(tmp_path):
    data = timelines.build(tmp_path / "data", timelines.walks(5), n_step=2)
    with pytest.raises(UserError, match=r"first of the 2 rewards.*--custom_reward"):
        tfb.train_offline("dqn", data, table={"boosts": {"left": 2.0}}, logdir=tmp_path)


def test_a_preset_of_rows_names_the_algorithm_and_its_settings(data, tmp_path):
    options = {"config": "rows/dqn", "steps": 2, "logdir": tmp_path}
    run = tfb.train_offline(data=data, settings=SMALL, **options)
    saved = named.find(run.logdir).config
    assert (saved.algorithm, saved.settings.target) == ("dqn", "sarsa")
    assert saved.settings.batch_size == SMALL["batch_size"]
    again = tfb.train_offline(data=data, **options | {"config": run.logdir})
    assert named.find(again.logdir).config.settings == saved.settings


def set_splits(data, splits):
    """Give each row group of a table, of 100 rows, a split."""
    path = pathlib.Path(*table_reader.partition(data).files)
    rows = parquet.read_table(path)
    column = np.repeat(splits, 100)[: len(rows)]
    place = rows.column_names.index("split")
    rows = rows.set_column(place, "split", pyarrow.array(column))
    parquet.write_table(rows, path, row_group_size=100)
    part = {"name": path.name, "bytes": path.stat().st_size}
    timelines.change_manifest(path.parent, parts=[part])


@pytest.mark.parametrize("stream", [False, True])
def test_blocks_without_rows_for_training_are_skipped(stream, tmp_path):
    data = timelines.build(tmp_path / "data", timelines.walks(80))
    options = {"steps": 60, "logdir": tmp_path / "runs", "settings": SMALL}
    options["eval_every"] = 0
    options["table"] = {"stream": stream, "block_rows": 100}
    set_splits(data, ["train", "eval", "train", "eval"])
    assert tfb.train_offline("dqn", data, **options).step == 60
    set_splits(data, ["eval"] * 4)
    with pytest.raises(UserError, match="has no row for training"):
        tfb.train_offline("dqn", data, **options)


def test_a_timeline_that_is_made_again_ends_training_in_one_line(tmp_path):
    data = timelines.build(tmp_path / "data", timelines.walks(80))
    set_splits(data, ["train"] * 4)

    def again(*_):
        timelines.build(data, timelines.walks(80))

    options = {"steps": 400, "logdir": tmp_path, "settings": SMALL, "log_every": 5}
    options |= {"table": {"stream": True, "block_rows": 100}, "eval_every": 0}
    with pytest.raises(
        UserError, match=r"part-.* is gone: the timeline was made again"
    ):
        tfb.train_offline("dqn", data, on_iteration=again, **options)


def test_sarsa_leaves_out_rows_whose_next_action_is_not_known(data):
    columns = table_reader.read(table_reader.partition(data))
    rows = {k: tf.constant(x) for k, x in table.used(columns, False).items()}
    spec = EnvSpec(1, gym.spaces.Box(-1, 1, (5,)), gym.spaces.Discrete(2), {})
    agent = dqn.DQN(dqn.DQNConfig(n_step=1, target="sarsa"), spec)
    sequences = Sequences(agent.config, table.trajectory(rows))
    batch = agent._transition(sequences, dqn._Noise((), (), ()))
    unknown = (rows["next_action"] == table_reader.UNKNOWN) & ~rows["terminated"]
    np.testing.assert_array_equal(batch.mask, ~unknown)
    np.testing.assert_allclose(batch.discount, np.where(rows["terminated"], 0, 0.99))


def test_an_environment_is_played_if_it_has_the_spaces_of_the_rows(data, tmp_path):
    options = {"steps": 20, "logdir": tmp_path, "settings": SMALL}
    with pytest.raises(UserError, match=r"but the rows in .* have Box"):
        tfb.train_offline("dqn", data, env="CartPole-v1", **options)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (("0", "1"), None),
        (("left", "right"), None),
        (("0", "10"), r"action 1 of the rows in .* is named '10'.*names 0 to 1"),
        (("1", "0"), r"action 0 of the rows in .* is named '1'.*--schema"),
    ],
)
def test_numbered_actions_are_those_of_the_environment_in_order(actions, message, data):
    found = table_reader.partition(data)
    found = found._replace(schema=dataclasses.replace(found.schema, actions=actions))
    spec = EnvSpec(1, gym.spaces.Box(-1, 1, (5,)), gym.spaces.Discrete(2), {})
    if message is None:
        row_spaces.fitting(spec, spec, found)
    else:
        with pytest.raises(UserError, match=message):
            row_spaces.fitting(spec, spec, found)


@pytest.mark.parametrize("most", [2.0, 1.9])
def test_logged_actions_are_within_the_bounds_of_the_environment(most, tmp_path):
    rows = timelines.vector_walks(20, lambda k: {100: float(k % 3)})
    found = table_reader.partition(timelines.build(tmp_path, rows, "continuous"))
    state = gym.spaces.Box(-np.inf, np.inf, (5,))
    of_rows, env = (
        EnvSpec(1, state, gym.spaces.Box(-x, x, (1,)), {}) for x in (2.0, most)
    )
    if most == 2:
        assert row_spaces.fitting(env, of_rows, found).action_space == env.action_space
        return
    with pytest.raises(UserError, match=r"feature 100 .*from 0 to 2, .* -1.9 to 1.9"):
        row_spaces.fitting(env, of_rows, found)


def test_rows_without_an_end_are_told(tmp_path):
    ends = "terminated", "truncated", "final_state_features"
    rows = [{k: v for k, v in x.items() if k not in ends} for x in timelines.walks(20)]
    options = {"steps": 2, "logdir": tmp_path, "eval_every": 0, "settings": SMALL}
    with pytest.warns(UserWarning, match="no_terminal"):
        tfb.train_offline("dqn", rows, **options)


WRONG = {
    "n_step is 3, but rows of a timeline hold": {"settings": {"n_step": 3}},
    "gamma is 0.9, but the timeline .* 0.99": {"settings": {"gamma": 0.9}},
    "boosts names up; .* left, right": {"table": {"boosts": {"up": 1.0}}},
    "boosts is .*; expected a finite number": {"table": {"boosts": {"left": 10**400}}},
    "distribution names up; .* left, right": {
        "table": {"target_action_distribution": {"up": 1.0}}
    },
    "distribution is {'left': 0.5}; .* sum is 1": {
        "table": {"target_action_distribution": {"left": 0.5}}
    },
    "distribution is {'left': 2, 'right': -1}; .* at least 0": {
        "table": {"target_action_distribution": {"left": 2, "right": -1}}
    },
    "distribution is {'left': '1'}; expected numbers": {
        "table": {"target_action_distribution": {"left": "1"}}
    },
    "warmup_steps is 7, but nothing is collected": {"settings": {"warmup_steps": 7}},
    "reset_every is 5, which means nothing for logged": {
        "settings": {"reset_every": 5}
    },
    "epsilon is linear.*, but an agent .* --epsilon of": {
        "settings": {"epsilon": "linear(1, 0.1)"}
    },
    "normalize_observation is True, which means nothing": {
        "settings": {"normalize_observation": True}
    },
    "normalize_return is per_step, which means nothing": {
        "settings": {"normalize_return": "per_step"}
    },
    "num_envs is 3, which .* without an environment": {"num_envs": 3},
    "nothing is collected from logged rows": {"overlap": True},
    "eval_actions is both, which .* without an env": {"eval_actions": "both"},
    "eval_episodes is 5, which .* without an env": {"eval_episodes": 5},
    "eval_max_episode_steps is 9, which": {"eval_max_episode_steps": 9},
    "table gives rows, but 'ppo'": {"algorithm": "ppo"},
    "boosts is {'left': '1'}; expected a finite number": {
        "table": {"boosts": {"left": "1"}}
    },
    "config is dqn/cartpole, but .* use one of rows/dqn": {"config": "dqn/cartpole"},
    "algorithm is 'bc', but the config is for 'dqn'": {
        "algorithm": "bc",
        "config": "rows/dqn",
    },
}


@pytest.mark.parametrize("message", WRONG)
def test_settings_without_meaning_are_refused(message, data, tmp_path):
    options = {"algorithm": "dqn", "steps": 5, "logdir": tmp_path} | WRONG[message]
    with pytest.raises(UserError, match=message):
        tfb.train_offline(data=data, **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("stuck", [False, True])
def test_continuous_actions_vary(stuck, tmp_path):
    rows = timelines.vector_walks(
        20, lambda k: {100: float(k % 3), 101: 0.5 if stuck else float(k % 2)}
    )
    data = timelines.build(tmp_path / "data", rows, "continuous")
    options = {"steps": 4, "logdir": tmp_path, "settings": {"network": {"hidden": [8]}}}
    if stuck:
        with pytest.raises(
            UserError, match=r"constant in the rows.*: 101 \(always 0.5"
        ):
            tfb.train_offline("sac", data, **options)
        return
    assert tfb.train_offline("sac", data, **options).step == 4


def test_a_run_goes_on_with_its_rows_and_needs_an_environment_to_play(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    timelines.build(tmp_path / "data", timelines.walks(20))
    settings = {"network": {"hidden": [8]}}
    run = tfb.train_offline("bc", "data", steps=4, logdir=tmp_path, settings=settings)
    monkeypatch.chdir("/")
    newer = [{**row, "ds": "2027-01-01", "action": "up"} for row in timelines.walks(2)]
    timelines.build(tmp_path / "data", newer, on_change="accept")
    assert tfb.train(resume=run.logdir, steps=8).step == 8
    with pytest.raises(UserError, match="eval_episodes is 5, which means nothing"):
        tfb.train(resume=run.logdir, steps=12, eval_episodes=5)
    timelines.build(tmp_path / "data", timelines.walks(20), on_change="accept")
    with pytest.raises(UserError, match=r"have changed since it began.*--init_from="):
        tfb.train(resume=run.logdir, steps=12)
    with pytest.raises(UserError, match="learned from logged rows and has no env"):
        tfb.evaluate(run.logdir)


def test_dqn_learns_the_values_of_the_log_unless_its_target_is_set():
    learned = named.offline_settings("dqn", {"batch_size": 8})
    assert learned["target"] == "sarsa" and learned["loss"] == "squared"
    assert learned["learning_rate"] == "linear(3e-3, 0)" and learned["batch_size"] == 8
    own = {"learning_rate": 1e-4}
    assert named.offline_settings("dqn", own)["learning_rate"] == 1e-4
    for chosen in ({"target": "max"}, {"cql_scale": 1.0}, {"distribution": "qr"}):
        assert not {"loss", "learning_rate"} & {*named.offline_settings("dqn", chosen)}
    assert "target" not in named.offline_settings("bcq", {})
    assert "target" not in named.offline_settings("dqn", {}, "rows/fqi")
