"""Several seeds in one program: each seed learns the same as alone."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
from types import SimpleNamespace

import gymnasium
import keras
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.support.linear import Config
from tests.support.lines import saved, without_times
from tests.training.log.test_hyperparameters import rows
from tests.training.test_loop import Records
from tfagents_batch import seeds
from tfagents_batch.envs.tf.batch import TensorBatch
from tfagents_batch.errors import TrainingError, UserError
from tfagents_batch.graph import epochs
from tfagents_batch.metrics import Limit, Mean
from tfagents_batch.nn import networks
from tfagents_batch.training.config import RunConfig, with_options
from tfagents_batch.training.evaluate import Evaluation
from tfagents_batch.training.log.console import Console
from tfagents_batch.training.log.logger import read_events, read_metrics
from tfagents_batch.training.seeds import experiment, functional, population

SMALL = {
    "steps": 400,
    "num_envs": 4,
    "rollout.length": 25,
    "eval_every": 0,
    "log_every": 1,
    "compile_cache": False,
}
BOTH = {
    "objective": "both",
    "epochs": 4,
    "learning_rate": "linear(1e-3, 0)",
    "network.hidden": (16,),
    "minibatch_size": None,  # minibatches are tested below
    "kl_stop": 1e-3,
    "histograms": False,
}
GRU = {"epochs": 2, "minibatch_size": 50, "sequence_length": 5}
GRU |= {"network": networks.Config(core="gru", hidden=(16,))}


def values(run):
    """Return all values in the newest checkpoint, by position."""
    folder = pathlib.Path(run.logdir)
    (path,) = folder.glob(f"checkpoints/step-{max(saved(folder)):012d}")
    reader = tf.train.load_checkpoint(str(path / "variables"))
    names = sorted(reader.get_variable_to_shape_map())
    return {name: reader.get_tensor(name) for name in names if "VARIABLE_VALUE" in name}


def compare(found, expected):
    names = {"loss/value", "policy/entropy", "grad/norm", "grad/updates"}
    for name in names & expected[0].keys():
        mine, theirs = ([line[name] for line in lines] for lines in (found, expected))
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-4, err_msg=name)


def trained(run):
    return [line for line in read_metrics(run.logdir) if "loss/total" in line]


@pytest.mark.parametrize(
    ("algorithm", "env", "settings", "actions"),
    [
        ("ppo", "tf/Pendulum-v1", BOTH, None),  # without evaluations
        pytest.param(
            *("reinforce", "tf/Pendulum-v1", {"baseline": "average"}, "both"),
            marks=[pytest.mark.slow],
        ),
        pytest.param(
            *("ppo", "tf/TMaze-v0", GRU, "mode"),
            marks=[pytest.mark.slow, pytest.mark.timeout(1200)],
        ),
    ],
)
def test_a_seed_learns_the_same_as_alone(algorithm, env, settings, actions, tmp_path):
    options = {**SMALL, "settings": settings, "env": env, "algorithm": algorithm}
    if actions is not None:
        options |= {"eval_every": 10_000, "eval_episodes": 4, "eval_actions": actions}
    first, run = tfb.train_seeds(seeds=[3, 8], logdir=tmp_path / "all", **options)
    # Not compiled: compilation is tested elsewhere.
    alone = tfb.train(seed=8, logdir=tmp_path / "one", compile="off", **options)
    assert pathlib.Path(run.logdir).name.endswith("-s8")
    assert run.finished and run.step == alone.step
    found, expected = values(run), values(alone)
    for name, value in found.items():
        np.testing.assert_allclose(
            value, expected[name], rtol=1e-3, atol=1e-4, err_msg=name
        )
    compare(trained(run), trained(alone))
    for name in ("eval/return_mean", "eval/length_mean", "eval_sample/return_mean"):
        if name in alone.metrics:
            np.testing.assert_allclose(run.metrics[name], alone.metrics[name], 1e-3)
    assert set(run.metrics) == set(alone.metrics)
    assert run.metrics["loss/policy"] != first.metrics["loss/policy"]


def test_each_seed_has_its_own_minibatches_and_stops_by_itself():
    weight = keras.Variable(0.0, trainable=False)
    rows, mask = tf.range(10.0), tf.range(10) != 3

    def visit(batch, mask, count):
        total = tf.reduce_sum(tf.where(mask, batch, 0.0))
        weight.assign(2.0 * weight.value + total)
        return count + 1

    def train(seed):
        options = {"epochs": 3, "minibatch_size": 4, "seed": seed}
        stop = lambda count: count >= seed  # noqa: E731
        return epochs.loop(visit, 0, rows, mask, stop=stop, **options)

    def one(pair):
        return functional.call([weight], [pair[0]], train, pair[1])

    starts, numbers = [0.5, 1.0, 2.0], [3, 8, 20]  # of nine minibatches
    pairs = tf.constant(starts), tf.constant(numbers)
    (found,), counts = tf.vectorized_map(one, pairs, fallback_to_while_loop=False)
    assert list(counts) == [3, 8, 9] and weight.value == 0.0
    for i, (start, number) in enumerate(zip(starts, numbers, strict=True)):
        weight.assign(start)
        train(tf.constant(number))
        assert found[i] == weight.value


class Chance:
    """An environment that ignores actions: its episodes are equal in all programs."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, key):
        position = seeds.uniform([1], key)
        return position, position

    def step(self, state, action, key):
        return state, state, 1.0, seeds.uniform([], key) < 0.1


CLOCKS = {"steps": 4000, "log_every": 1000, "eval_every": 1500, "keep_every": 1100}
CLOCKS |= {"eval_episodes": 4, "algorithm": "linear"}


class Outputs(Records):
    def write(self, metrics, step):
        self.lines.append({**metrics, "step": step})

    def save(self, step, variables, state, metadata):
        self.saved.append((step, metadata))
        return pathlib.Path()

    def marked(self, mark):
        return {step for step, metadata in self.saved if metadata[mark]}


NEVER = SimpleNamespace(
    requested=False,
    checkpoint_requested=False,
    rescue=lambda save: contextlib.nullcontext(),
)


@pytest.fixture(scope="module")
def two_seeds(linear):
    options = {**SMALL, **CLOCKS, "checkpoint_every": 0, "settings": Config()}
    config = with_options(RunConfig(env="chance", algorithm="linear"), options)
    return experiment.SeedsExperiment(config, [3, 8], config.recipe(Chance))


@pytest.fixture(scope="module")
def trainings(two_seeds):
    """Run two seeds twice: with as many iterations per call as possible, and with one.

    Each entry has the outputs, the number of calls and the final values.
    """
    run, together = two_seeds, two_seeds.population
    sources = together._source.named_variables().values()
    variables = [*together._values, *sources, together._step]
    start = [variable.numpy() for variable in variables]
    found = []
    with pytest.MonkeyPatch.context() as patch:
        for seconds in (1e9, 0.0):
            patch.setattr(experiment, "_SECONDS", seconds)
            for variable, value in zip(variables, start, strict=True):
                variable.assign(value)
            calls, outputs = [], [Outputs(grouped=True), Outputs(grouped=True)]
            records = [
                each.record(run.config, counters=run.counters) for each in outputs
            ]
            count = lambda step, metrics, calls=calls: calls.append(step)  # noqa: E731
            assert run.train(NEVER, records, count)
            found.append((outputs, len(calls), [x.numpy() for x in variables]))
    return found


def test_results_do_not_depend_on_the_number_of_iterations_per_call(trainings):
    (many, few_calls, end), (one, calls, other_end) = trainings
    assert few_calls < 0.6 * calls
    for x, y in zip(end, other_end, strict=True):
        np.testing.assert_array_equal(x, y)
    for x, y in zip(many, one, strict=True):
        assert x.saved == y.saved
        assert len(x.lines) == len(y.lines)
        for line, other in zip(x.lines, y.lines, strict=True):
            assert line.get("system/traces", 1) == 1
            line, other = without_times([line, other])
            assert line.keys() == other.keys()
            for name, value in line.items():
                np.testing.assert_array_equal(value, other[name], err_msg=name)
    assert any(np.ndim(value) for value in many[0].lines[0].values())  # histograms


def test_lines_evaluations_and_checkpoints_are_at_the_steps_of_a_single_run(
    trainings, tmp_path
):
    found = trainings[0][0][1]
    options = {**SMALL, **CLOCKS, "compile": "off"}
    alone = tfb.train(env=Chance, seed=8, logdir=tmp_path, **options)
    expected = read_metrics(alone.logdir)
    assert [line["step"] for line in found.lines] == [line["step"] for line in expected]
    assert sum("eval/return_mean" in line for line in expected) == 3
    for line, other in zip(found.lines, expected, strict=True):
        known = {k: v for k, v in other.items() if k.startswith(("episode/", "eval/"))}
        assert known == {k: line[k] for k in known}
    compare([x for x in found.lines if "loss/total" in x][:3], trained(alone)[:3])
    folder, marked = alone.logdir, {"best": set(), "keep": set()}
    for step, metadata in saved(folder).items():
        for mark in marked:
            if metadata[mark]:
                marked[mark].add(step)
    assert marked["best"] <= found.marked("best")  # only the last one stays
    assert marked["keep"] == found.marked("keep") and len(marked["keep"]) == 3


LONGER = {**SMALL, "steps": 700, "eval_every": 100, "eval_episodes": 4}
LONGER |= {"env": "tf/CartPole-v1", "algorithm": "linear"}


@pytest.fixture(scope="module")
def stopped(linear, tmp_path_factory):
    """Train two seeds until a signal, with an alarm for every loss."""
    logdir = tmp_path_factory.mktemp("logs")
    alarm = Limit("much", "loss/total", "The loss is {loss/total:.3g}", above=-1e9)

    def update(self, step, metrics):
        if step >= 400:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Console, "update", update)
        patch.setattr(Config, "alarms", lambda config, spec: (alarm,))
        return tfb.train_seeds(seeds=[4, 9], logdir=logdir, **LONGER)


def test_a_signal_saves_every_seed(stopped):
    for run in stopped:
        assert not run.finished and 400 <= run.step < 700
        assert max(saved(run.logdir)) == run.step


def test_each_seed_has_its_own_alarms_hyperparameters_and_best_checkpoint(stopped):
    differing, found = rows(pathlib.Path(stopped[0].logdir).parent)
    assert differing == {"seed"}
    for run, seed in zip(stopped, (4, 9), strict=True):
        time, _, name = pathlib.Path(run.logdir).name.partition("-")
        row = found[f"{name} {time}"]
        assert row.hparams["seed"].number_value == seed
        assert any(event["event"] == "alarm" for event in read_events(run.logdir))
        lines = [x for x in read_metrics(run.logdir) if "eval/return_mean" in x]
        best = max(lines, key=lambda line: line["eval/return_mean"])
        marked = [step for step, each in saved(run.logdir).items() if each["best"]]
        assert marked[-1:] == [best["step"]]
        assert len({line["step"] for line in lines}) == len(lines)


def test_a_resumed_seed_continues_as_if_it_had_never_stopped(stopped, tmp_path):
    folder = shutil.copytree(stopped[1].logdir, tmp_path / "resumed")
    assert tfb.evaluate(folder, episodes=4).mean_return > 5
    more = tfb.train(resume=folder, compile="off")
    alone = tfb.train(seed=9, logdir=tmp_path / "one", compile="off", **LONGER)
    assert more.finished and more.step == alone.step
    compare(trained(more), trained(alone))
    assert [line["step"] for line in trained(more)] == [
        line["step"] for line in trained(alone)
    ]


def test_evaluations_are_split_together_with_sampled_ones():
    cut_off = np.array([True, False, False, False])
    sampled = Evaluation(np.arange(4.0) + 10, np.arange(4), cut_off=~cut_off)
    whole = Evaluation(np.arange(4.0), np.arange(4), sampled, cut_off=cut_off)
    first, second = population.split(whole, 2)
    assert list(first.returns) == [0, 1]
    assert list(second.sampled.returns) == [12, 13]
    assert first.cut_off_episodes == 1 and second.cut_off_episodes == 0
    assert first.sampled.cut_off_episodes == 1


def test_a_seed_without_a_finite_gradient_stops_all_and_the_others_are_saved(
    two_seeds, monkeypatch
):
    """The gradients of the second seed are not finite, in three rounds of one call."""
    steps = np.array([[25, 25], [50, 50], [75, 75]])
    skipped = Mean(np.array([[0.0, 1.0]] * 3), np.ones([3, 2]))
    metrics = {population.STEP: steps, "grad/skipped": skipped}
    outputs = [Outputs(grouped=True), Outputs(grouped=True)]
    records = [each.record(two_seeds.config) for each in outputs]
    monkeypatch.setattr(two_seeds, "population", lambda *limits: (3, metrics, {}))
    with pytest.raises(TrainingError, match="seed 8: no gradient was finite"):
        two_seeds.train(NEVER, records, pytest.fail)
    assert [step for step, _ in outputs[0].saved] == [75]
    assert outputs[1].saved == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": 0}, "seeds is 0; expected 1 to 1000000"),
        ({"seeds": []}, "seeds are .*; expected different"),
        ({"seeds": [1, 1]}, "expected different"),
        ({"seeds": [-1]}, "expected 0 to"),
        ({"network": lambda spaces: None}, "network cannot be used with several seeds"),
    ],
)
def test_settings_that_several_seeds_do_not_support_are_refused(
    options, message, tmp_path
):
    with pytest.raises(UserError, match=message):
        tfb.train_seeds(logdir=tmp_path, **{"env": "tf/CartPole-v1", **options})
    assert list(tmp_path.iterdir()) == []


def test_an_algorithm_that_does_not_support_several_seeds_is_refused():
    class Other:
        compilable = True

    with pytest.raises(UserError, match="Other cannot train several seeds in one"):
        population.Population([Other()], TensorBatch(Chance(), 2), [0], 5)
