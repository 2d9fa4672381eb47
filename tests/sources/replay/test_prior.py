"""Logged rows beside the windows of a replay."""

import functools

import gymnasium as gym
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.offline import timelines
from tests.sources.cases import outline
from tests.sources.replay.scripted import Case, Script, stream
from tfagents_batch import nest
from tfagents_batch.algorithms import REGISTRY
from tfagents_batch.clocks import Ratio
from tfagents_batch.devices import machine
from tfagents_batch.errors import UserError
from tfagents_batch.logged.table import RowTable, Sizes
from tfagents_batch.offline import timeline
from tfagents_batch.offline.features.find import find
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.timeline_config import TimelineConfig
from tfagents_batch.ops import windows
from tfagents_batch.schedules import Constant, Linear, Piecewise
from tfagents_batch.sources.prior import PriorRows
from tfagents_batch.sources.replay import Replay
from tfagents_batch.sources.replay_settings import ReplaySettings
from tfagents_batch.training.log.logger import read_metrics
from tfagents_batch.training.run_folder import runs
from tfagents_batch.types import Windows

N, GAMMA, ROWS = 10, 0.9, 40
CASE = Case(batch=2, k=3, window=4, capacity=50)


class Plain(Script):
    """A script whose policy records nothing."""

    def collect(self, seed, step):
        collected = super().collect(seed, step)
        trajectory = collected.trajectory._replace(behavior={})
        return collected._replace(trajectory=trajectory)


def table(blocks=(ROWS,), batch=N):
    """Return rows whose state is -1000 - i, reward i and action i."""

    def columns(first, count):
        number = np.arange(first, first + count)
        state = np.stack([-1000.0 - number, np.zeros(count)], -1)
        return {
            "state": state.astype(np.float32),
            "next_state": (state - 5000).astype(np.float32),
            "reward": number.astype(np.float32),
            "discount": np.full(count, GAMMA**3, np.float32),
            "terminated": number % 4 == 0,
            "action": number.astype(np.int32),
            "next_action": number.astype(np.int32),
        }

    starts = np.cumsum([0, *blocks[:-1]])
    parts = map(columns, starts, blocks)
    return RowTable(iter(parts), Sizes(tuple(blocks), batch))


def replay(share=None, blocks=(ROWS,), collects=12, batch=N, **options):
    """Return a replay of a script, with rows if there is a share."""
    options.setdefault("beta", Constant(1.0))
    config = ReplaySettings(CASE.capacity, CASE.k, **options)
    wanted = Windows(batch, CASE.window, Ratio(1, 1, 0), CASE.window - 1, GAMMA)
    prior = None
    if share is not None:
        prior = PriorRows(table(blocks, batch), share, wanted)
    script = Plain(CASE)
    made = Replay(script, config, outline(script), wanted, prior)
    rows = stream([(7, "terminate")], script.size)
    begin = [CASE.k * i for i in range(collects)]
    script.load([rows] * CASE.batch, begin, [True] * collects)
    for i in range(collects):
        made.store(made.collect(i, i), i)
    return made


def sampler(made, priority=None):
    """Return a compiled function from a seed and a step to a batch."""

    @tf.function(jit_compile=True, autograph=False)
    def sample(seed, step):
        drawn = made.sample((), seed, step)
        if priority is not None:
            made.feedback(priority(drawn))
        return drawn

    return lambda seed, step=0: nest.map(
        np.asarray, sample(tf.constant(seed), tf.constant(step, tf.int64))
    )


def is_row(drawn):
    return np.asarray(drawn.steps.observation)[0, :, 0] <= -1000


def chi_square(counts):
    """Return the statistic of equal chances, standardized: normal for many cells."""
    counts = np.asarray(counts, float)
    expected = counts.mean()
    free = len(counts) - 1
    return (((counts - expected) ** 2 / expected).sum() - free) / np.sqrt(2 * free)


@pytest.mark.parametrize("priorities", ["none", "equal", "other"])
def test_share_rows_and_windows_are_drawn_with_their_chances(priorities):
    size, updates = 50, 2000  # 100,000 draws
    made = replay(Constant(0.37), batch=size, prioritized=priorities != "none")
    if priorities == "other":
        made.sample((), 1, tf.constant(0, tf.int64))
        made.feedback(tf.range(1.0, size + 1))

    @tf.function(jit_compile=True, autograph=False)
    def draw(seeds):
        def one(seed):
            drawn = made.sample((), seed, tf.constant(0, tf.int64))
            return drawn.steps.observation[0, :, 0] <= -1000, drawn.action[0]

        return tf.map_fn(one, seeds, fn_output_signature=(tf.bool, tf.int32))

    here, action = (x.numpy() for x in draw(tf.range(updates)))
    share = here.sum(1)
    assert set(share) == {18, 19}  # of 50: 18.5 of them on average
    error = share.std() / np.sqrt(updates)
    assert share.mean() == pytest.approx(0.37 * size, abs=4 * error)
    rows, starts = (np.unique(action[x], return_counts=True)[1] for x in (here, ~here))
    assert len(rows) == ROWS
    assert len(starts) == int(made.metrics()["replay/size"])
    for counts in (rows, here.sum(0)):
        assert chi_square(counts) < 4
    assert (chi_square(starts) < 4) == (priorities != "other")


@pytest.mark.parametrize("prioritized", [False, True])
def test_a_share_of_0_draws_what_a_replay_without_rows_draws(prioritized):
    with_rows = replay(Constant(0.0), prioritized=prioritized)
    without = replay(prioritized=prioritized)

    def priority(drawn):
        return tf.abs(drawn.reward[0])

    first, second = sampler(with_rows, priority), sampler(without, priority)
    for seed in range(20):
        mixed, plain = first(seed), second(seed)
        np.testing.assert_array_equal(mixed.behavior["discount"], np.float32(GAMMA))
        for x, y in zip(
            nest.flatten(mixed._replace(behavior={})), nest.flatten(plain), strict=True
        ):
            np.testing.assert_array_equal(x, y)
    assert float(with_rows.metrics()["replay/prior_share"]) == 0


def test_a_row_keeps_its_reward_discount_and_state_in_a_target_of_several_rewards():
    drawn = sampler(replay(Constant(0.5)))(3)
    here = is_row(drawn)
    assert here.sum() == 5
    drawn = nest.map(tf.constant, drawn)
    batch = windows.transition(drawn, CASE.window - 1, GAMMA)
    number = drawn.action[0].numpy()[here]
    np.testing.assert_array_equal(batch.reward.numpy()[here], number)
    expected = np.where(number % 4 == 0, 0, np.float32(GAMMA**3))
    np.testing.assert_array_equal(batch.discount.numpy()[here], expected)
    np.testing.assert_array_equal(batch.length.numpy()[here], 1)
    np.testing.assert_array_equal(
        batch.next.observation.numpy()[here][:, 0], -6000.0 - number
    )
    assert batch.mask.numpy()[here].all()
    # Windows have the same targets as without a discount in their behavior.
    plain = windows.transition(drawn._replace(behavior={}), CASE.window - 1, GAMMA)
    for x, y in zip(nest.flatten(batch), nest.flatten(plain), strict=True):
        if x.dtype == tf.float32 and x.shape.rank == 1:
            np.testing.assert_array_equal(x.numpy()[~here], y.numpy()[~here])


def test_rows_weigh_1_and_set_no_priorities():
    made = replay(Constant(0.5), prioritized=True, alpha=1.0)
    tree, sample = "tree/level_0", sampler(made)
    uid = {}  # leaf by the number of its first step
    for seed in range(30):
        drawn = sample(seed)
        here = is_row(drawn)
        np.testing.assert_array_equal(drawn.weight[here], 1)
        assert (drawn.weight[~here] > 0).all()
        leaves = made._sampler._drawn.read().numpy()
        uid |= dict(zip(leaves[~here].tolist(), drawn.action[0][~here], strict=True))
        before = made.named_variables()[tree].numpy()
        priority = 2.0 + np.arange(N, dtype=np.float32)
        made.feedback(tf.constant(priority))
        after = made.named_variables()[tree].numpy()
        changed = {int(x) for x in np.flatnonzero(after != before)}
        drawn_leaves = set(leaves[~here & drawn.mask[0]].tolist())
        assert changed <= drawn_leaves and (changed or seed)
        for leaf in changed:
            (places,) = np.nonzero((leaves == leaf) & ~here)
            assert after[leaf] == pytest.approx(priority[places[-1]], rel=1e-5)
        set_now = {leaf: after[leaf] for leaf in drawn_leaves}
        assert all(x >= 2 for x in set_now.values()) and set_now
    assert len(uid) > 5


def test_td_errors_of_rows_and_windows_are_measured_apart():
    made = replay(Constant(0.5))
    drawn = sampler(made)(1)
    priority = np.where(is_row(drawn), 7.0, 3.0).astype(np.float32)
    made.feedback(tf.constant(priority))
    metrics = {name: float(x) for name, x in made.metrics().items()}
    assert metrics["replay/prior_share"] == 0.5
    assert metrics["replay/prior_td_error"] == 7
    assert metrics["replay/collected_td_error"] == 3


def test_the_share_follows_its_schedule_of_environment_steps():
    sample = sampler(replay(Piecewise(((0, 0.8), (100, 0.2)))))
    assert is_row(sample(1, 0)).sum() == 8
    assert is_row(sample(1, 100)).sum() == 2


def test_blocks_of_rows_follow_the_number_of_updates_not_of_steps():
    made = replay(Constant(0.5), blocks=(20, 20))
    sample, halves = sampler(made), []
    for seed in range(4):  # two passes of two updates, at one environment step
        drawn = sample(seed, 1234)
        (half,) = set(drawn.action[0][is_row(drawn)] // 20)
        halves.append(int(half))
    assert sorted(set(halves)) == [0, 1]
    assert int(made.named_variables()["updates"].numpy()) == 4


def test_an_empty_replay_trains_from_rows_alone():
    drawn = sampler(replay(Constant(0.5), collects=0))(1)
    here = is_row(drawn)
    assert here.sum() == 5
    np.testing.assert_array_equal(drawn.mask[0], here)


def test_a_policy_that_records_values_is_refused():
    script = Script(CASE)
    wanted = Windows(N, CASE.window, Ratio(1, 1, 0), 3, GAMMA)
    config = ReplaySettings(CASE.capacity, CASE.k)
    prior = PriorRows(table(), Constant(0.5), wanted)
    like = outline(script)
    with pytest.raises(UserError, match="the policy records log_prob"):
        Replay(script, config, like, wanted, prior)


def test_a_damaged_count_of_updates_is_refused():
    made = replay(Constant(0.5))
    numbers = {
        name: x.numpy()
        for name, x in made.named_variables().items()
        if x.shape.rank == 0
    }
    made.check_numbers(numbers)
    with pytest.raises(ValueError, match="updates is -1"):
        made.check_numbers(numbers | {"updates": -1})


def test_linear_shares_need_their_length():
    with pytest.raises(UserError, match="linear"):
        replay(Linear(0.5, 0.0))


def cartpole(steps=400):
    """Return logged rows of random actions."""
    rows, env, episode = [], gym.make("CartPole-v1"), -1
    env.action_space.seed(1)
    over = True
    for _ in range(steps):
        if over:
            observation, _ = env.reset(seed=(episode := episode + 1))
            number = 0
        action = int(env.action_space.sample())
        row = {
            "ds": "2026-01-01",
            "mdp_id": str(episode),
            "sequence_number": number,
            "state_features": {i: float(x) for i, x in enumerate(observation)},
            "action": str(action),
            "action_probability": 0.5,
            "possible_actions": ["0", "1"],
        }
        observation, reward, over, _, _ = env.step(action)
        rows.append(row | {"reward": reward} | ({"terminated": True} if over else {}))
        number += 1
    env.close()
    return rows


@pytest.fixture(scope="module")
def table_of(tmp_path_factory):
    """Return a function that returns the folder of a timeline, by its settings."""
    rows, folder = cartpole(), tmp_path_factory.mktemp("cartpole")

    @functools.cache
    def make(name, **settings):
        return timelines.build(folder / name, rows, **settings)

    return make


SMALL = {
    "network": {"hidden": [8]},
    "batch_size": 8,
    "histograms": False,
    "warmup_steps": 20,
    "train_every": 8,
}


def train(table, folder, settings=(), prior=(), name="dqn", **options):
    """Train beside a table for a moment; the environment is part of the program."""
    defaults = {"env": "tf/CartPole-v1", "steps": 200, "num_envs": 2, "eval_every": 0}
    replay = {"prior": str(table), "capacity": 500, **dict(prior)}
    return tfb.train(
        name,
        settings=SMALL | dict(settings),
        replay=replay,
        logdir=folder,
        **defaults | options,
    )


def weights(run):
    policy = tfb.load(run.logdir)._policy
    return {name: np.asarray(x) for name, x in policy.named_variables().items()}


@pytest.mark.parametrize(
    ("name", "prioritized"),
    [
        ("dqn", False),
        *(
            pytest.param(*x, marks=pytest.mark.slow)
            for x in (("dqn", True), ("sac", False))
        ),
    ],
)
def test_a_stopped_run_goes_on_with_the_same_rows_and_refuses_others(
    name, prioritized, tmp_path, monkeypatch
):
    traced, kind = [], REGISTRY[name][0]
    update = kind.update

    def counted(*arguments):
        traced.append(name)
        return update(*arguments)

    monkeypatch.setattr(kind, "update", counted)
    rows = cartpole()
    table = timelines.build(tmp_path / "data", rows, n_step=3)
    warmup = 0 if prioritized else 20  # so that it learns from the rows at once
    settings = {"name": name, "settings": {"n_step": 3, "warmup_steps": warmup}}
    settings["log_every"] = 8
    settings["prior"] = {"prioritized": prioritized, "beta": 0.5}
    straight = train(table, tmp_path / "straight", **settings)
    assert len(traced) == 1  # one program
    stopped = train(table, tmp_path / "stopped", steps=96, **settings)
    resumed = tfb.train(resume=stopped.logdir, steps=200)
    found = weights(resumed)
    for key, x in weights(straight).items():
        np.testing.assert_array_equal(found[key], x, err_msg=key)
    metrics = read_metrics(straight.logdir)
    learned = [x for x in metrics if x.get("grad/updates")]
    assert (learned[0]["step"] < 20) == prioritized
    shares = [x["replay/prior_share"] for x in metrics if "replay/prior_share" in x]
    assert 0.5 in shares
    (seen,) = runs.facts(resumed.logdir)[runs.TRAINING_ROWS]
    assert seen
    timelines.build(table, rows[:40], n_step=3, on_change="accept")
    with pytest.raises(UserError, match=r"data .* have changed.*data.* was made again"):
        tfb.train(resume=resumed.logdir, steps=300)


REFUSED = {
    "made with discount=time": ({"n_step": 3, "discount": "time"}, {}, {}),
    "gamma is 0.9": ({"n_step": 3}, {"gamma": 0.9}, {}),
    "n_step is 1, but the timeline .* with 3": ({"n_step": 3}, {"n_step": 1}, {}),
    "target=sarsa": ({"n_step": 3}, {"target": "sarsa"}, {}),
    "target=munchausen with n_step=3": ({"n_step": 3}, {"target": "munchausen"}, {}),
    "share is 0; .* leave replay.prior out": ({"n_step": 3}, {}, {"prior_share": 0}),
    "pass the timeline as --data": ({"n_step": 3}, {}, {"prior_share": 1}),
    "nowhere has no timeline": (None, {}, {"prior": "nowhere"}),
}


@pytest.mark.parametrize("error", REFUSED)
def test_what_cannot_be_mixed_is_refused_before_anything_starts(
    error, table_of, tmp_path
):
    timeline, settings, prior = REFUSED[error]
    name = "by time" if timeline and "discount" in timeline else "refused"
    table = table_of(name, **timeline) if timeline else ""
    with pytest.raises(UserError, match=error):
        train(table, tmp_path, settings, prior)
    assert not list(tmp_path.iterdir())


def test_rows_with_a_file_of_features_are_refused(tmp_path):
    with open_rows(cartpole(60), "discrete") as rows:
        found, settings = find(rows).specification, TimelineConfig(n_step=3)
        parts = rows, rows.find_schema(), settings, tmp_path / "data"
        timeline.build(*parts, features=found)
    with pytest.raises(UserError, match="make a timeline without --features"):
        train(tmp_path / "data", tmp_path / "logs")


def test_rows_of_another_environment_are_refused(table_of, tmp_path):
    table = table_of("other", n_step=3)
    with pytest.raises(UserError, match="pass the environment that was logged"):
        train(table, tmp_path, env="tf/Catch-v0")


def test_rows_that_do_not_fit_in_memory_are_refused(table_of, tmp_path, monkeypatch):
    table = table_of("large", n_step=3)
    monkeypatch.setattr(machine, "available_bytes", lambda: 1000)
    with pytest.raises(UserError, match="more than half of the free memory"):
        train(table, tmp_path)
