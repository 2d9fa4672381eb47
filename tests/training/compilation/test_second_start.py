"""A second start finds every program that the first one compiled."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf

from tfagents_batch import configs
from tfagents_batch.algorithms import ppo
from tfagents_batch.envs.native import build
from tfagents_batch.nn import networks
from tfagents_batch.scripts import train
from tfagents_batch.sources import rollout_settings
from tfagents_batch.training.assembly import Experiment
from tfagents_batch.training.config import RunConfig

TRAIN = """
import sys
import tfagents_batch as tfb
tfb.train("a2c", env="tf/CartPole-v1", steps=64, num_envs=2, rollout={"length": 16},
          eval_every=0, settings={"histograms": False}, logdir=sys.argv[1])
"""
COMMAND = (
    *("-m", "tfagents_batch", "train", "--env=CartPole-v1", "--num_envs=2"),
    *("--rollout.length=16", "--algorithm=a2c", "--algorithm.histograms=false"),
    *("--eval_every=96", "--eval_episodes=2", "--log_every=32", "--on_fault=restart"),
)
NUMBERS = ("--steps=96", "--algorithm.learning_rate=linear(1e-3, 0)")
OTHER_NUMBERS = (
    *("--steps=128", "--algorithm.learning_rate=linear(1e-2, 1e-3)", "--seed=1"),
    *("--algorithm.entropy_scale=0.1", "--algorithm.gamma=0.9"),
)


def start(tmp_path, *arguments, here=False):
    """Train; return the number of stored programs and the lines of the run.

    Args:
      *arguments: of Python.
      here: train in this process instead of a new one.
    """
    store = tmp_path / "cache"
    environment = os.environ | {"XDG_CACHE_HOME": str(store)}
    environment.pop("TFAGENTS_BATCH_COMPILE_CACHE", None)
    before = set(tmp_path.glob("logs/*"))
    if here:
        assert train.main(arguments[3:]) == 0
    else:
        done = subprocess.run(
            [sys.executable, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr[-2000:]
    (folder,) = set(tmp_path.glob("logs/*")) - before
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    stored = {kind: len(list(store.rglob(f"*.{kind}"))) for kind in ("pb", "entry")}
    return stored, [json.loads(line) for line in lines]


def origin(lines):
    (event,) = [line for line in lines if line.get("event") == "compiled"]
    return event["program"]


def learned(lines):
    """Return the metrics that do not depend on time or memory."""
    skipped = ("time/", "system/", "perf/", "env/")
    return [
        {name: value for name, value in line.items() if not name.startswith(skipped)}
        for line in lines
        if "loss/total" in line
    ]


@pytest.mark.slow
def test_the_second_start_of_a_run_compiles_nothing(tmp_path):
    arguments = "-c", TRAIN, str(tmp_path / "logs")
    first, lines = start(tmp_path, *arguments)
    second, _ = start(tmp_path, *arguments)
    assert 0 < first["pb"] == second["pb"]
    # User code in this process might have changed anything: nothing is stored.
    assert first["entry"] == 0 and origin(lines) == "traced"


@pytest.mark.xla
def test_a_start_with_other_numbers_compiles_and_traces_nothing(tmp_path, library):
    built = build._path().parent  # so that it is not compiled again
    shutil.copytree(built, tmp_path / "cache" / built.parent.name / built.name)
    command = *COMMAND, f"--logdir={tmp_path / 'logs'}"
    first, lines = start(tmp_path, *command, *NUMBERS)
    assert first["pb"] > 0 and first["entry"] == 1 and origin(lines) == "traced"
    arguments = *command, *OTHER_NUMBERS
    second, other = start(tmp_path, *arguments)
    assert second == first and origin(other) == "kept"
    assert learned(other) != learned(lines) != []
    # A program that is traced with these numbers computes the same.
    third, alone = start(tmp_path, *arguments, "--compile_cache=false", here=True)
    assert third == first and origin(alone) == "traced"
    assert learned(alone) == learned(other)


RUNS = {
    "box": configs.PRESETS["pendulum"](),
    "chunks": RunConfig(
        env="CartPole-v1",
        source=rollout_settings.RolloutSettings(episodes=4),
        num_envs=2,
        settings=ppo.PPOConfig(
            objective="both", epochs=2, network=networks.NetworkConfig(core="gru")
        ),
    ),
    "gridworld": configs.PRESETS["tf/gridworld"](),
    "game": configs.PRESETS["tf/breakout-minatar"](),
}


@pytest.mark.parametrize(
    "name",
    [
        *("chunks", "game"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("box", "gridworld")),
    ],
)
def test_no_branch_or_loop_captures_a_constant(name):
    # Their names would differ from process to process, and with them the program's key.
    config = dataclasses.replace(
        RUNS[name], eval_every=0, num_envs=2, num_workers=None, compile_cache=False
    )
    with Experiment(config, config.recipe()) as experiment:
        experiment.start(0)
        program = experiment.program._compiled._program
        limits = tf.constant(3), tf.constant(9, tf.int64), tf.constant(2)
        graph = program.get_concrete_function(*limits).graph
    assert _captured(graph.as_graph_def()) == []


def test_a_captured_constant_is_noticed():
    @tf.function(autograph=False)
    def program(x):
        outside = tf.zeros([3])
        return tf.cond(x > 0, lambda: outside + 1, lambda: outside)

    graph = program.get_concrete_function(tf.TensorSpec([])).graph.as_graph_def()
    assert _captured(graph) == ["zeros"]


def _captured(graph: tf.compat.v1.GraphDef) -> list[str]:
    """Return names of constants, other than scalars, that a branch or loop captures.

    A value that a loop changes is not a constant there.
    """
    found = []
    functions = {f.signature.name: f for f in graph.library.function}
    for nodes in (graph.node, *(f.node_def for f in functions.values())):
        constants = {
            node.name
            for node in nodes
            if node.op == "Const" and node.attr["value"].tensor.tensor_shape.dim
        }
        for node in nodes:
            names = [x.split(":")[0] for x in node.input if not x.startswith("^")]
            constant = range(len(names)) if node.op.endswith("If") else ()
            if node.op.endswith("While"):
                constant = _unchanged(functions[node.attr["body"].func.name])
            found += [names[i] for i in constant if names[i] in constants]
    return found


def _unchanged(body) -> list[int]:
    """Return the indices of arguments that the body of a loop does not change."""
    sources = {node.name: node.input for node in body.node_def}

    def origin(name):
        node = name.split(":")[0]
        passes = "Identity" in node and node in sources
        return origin(sources[node][0]) if passes else name

    pairs = zip(body.signature.input_arg, body.signature.output_arg, strict=True)
    ends = [(start.name, origin(body.ret[end.name])) for start, end in pairs]
    return [i for i, (start, end) in enumerate(ends) if start == end]
