"""A program as text computes the same as the traced one; other data is refused."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import zlib

import numpy as np
import pytest
import tensorflow as tf

from tests.support import linear
from tfagents_batch.algorithms import ppo
from tfagents_batch.nn import networks
from tfagents_batch.programs import program
from tfagents_batch.sources import rollout_settings
from tfagents_batch.training.assembly import Experiment
from tfagents_batch.training.compilation import stablehlo
from tfagents_batch.training.compilation.stablehlo import Exported, NotExportable
from tfagents_batch.training.config import RunConfig

RECURRENT = networks.NetworkConfig(core="gru", hidden=(4,))
RUNS = {
    "processes": RunConfig(
        env="Pendulum-v1",
        source=rollout_settings.RolloutSettings(length=16),
        settings=ppo.PPOConfig(
            epochs=2, minibatch_size=16, network=RECURRENT, histograms=False
        ),
    ),
    "episodes": RunConfig(
        "linear",
        env="tf/CartPole-v1",
        source=rollout_settings.RolloutSettings(episodes=4),
        settings=linear.Config(),
    ),
}
SEED = (tf.constant(3),)
LIMITS = (*SEED, tf.constant(2**62, tf.int64), tf.constant(2))
pytestmark = pytest.mark.usefixtures("linear")


@pytest.fixture
def started():
    """Return a function that starts short runs; they are closed after the test."""
    with contextlib.ExitStack() as stack:

        def start(name, seed=0):
            config = dataclasses.replace(
                RUNS[name],
                **{"num_envs": 2, "eval_every": 0, "seed": seed},
                **{"compile": "full", "compile_cache": False},
            )
            experiment = stack.enter_context(Experiment(config, config.recipe()))
            if not experiment.envs[0].compilable:
                pytest.skip("the native engine needs a C++ compiler")
            experiment.start(0)
            training = experiment.program
            variables = program._variables(
                experiment.source, experiment.algorithm, training._step
            )
            return experiment, training._compiled._program, variables

        yield start


def hub(text, number):
    """Return the text with another hub number, as in another process."""
    return re.sub(r"handle = \d+ : i64", f"handle = {number} : i64", text)


# test_second_start.py stores and reads the program of a run with worker processes.
@pytest.mark.parametrize(
    "name", [pytest.param("processes", marks=pytest.mark.slow), "episodes"]
)
def test_text_is_equal_for_all_seeds_and_computes_the_same_as_the_traced_program(
    started, name
):
    _, first, variables = started(name, seed=7)
    texts = [stablehlo.export(first, LIMITS, variables)]
    _, second, variables = started(name)
    texts.append(stablehlo.export(second, LIMITS, variables))
    if name != "processes":  # the engine's calls have comments
        text = texts[0].module
        assert "loc(" not in text and ".py" not in text and "/" not in text
    unnamed = dict(list(variables.items())[1:])
    with pytest.raises(NotExportable, match="more than the variables"):
        stablehlo.export(second, LIMITS, unnamed)
    of_all = [hub(re.sub(r"_\d+", "", each.module), 1) for each in texts]
    assert texts[0]._replace(module=of_all[0]) == texts[1]._replace(module=of_all[1])

    expected = [second(*LIMITS) for _ in range(2)]
    third, _, others = started(name)
    text = Exported.from_bytes(texts[0].to_bytes())
    module = hub(text.module, getattr(third.envs[0], "hub", None))
    run = stablehlo.program(text._replace(module=module), others, third.envs)
    found = [run(*LIMITS) for _ in range(2)]
    tf.nest.assert_same_structure(found, expected)
    for mine, its in zip(*map(tf.nest.flatten, (found, expected)), strict=True):
        np.testing.assert_allclose(mine, its, 1e-4, 1e-5)
        assert mine.shape == its.shape
    for key, value in variables.items():
        found, expected = others[key].numpy(), value.numpy()
        np.testing.assert_allclose(found, expected, 1e-4, 1e-5, err_msg=key)
    assert run.experimental_get_tracing_count() == 1


def test_a_program_that_xla_refuses_is_not_exported():
    @tf.function(jit_compile=True, autograph=False)
    def refused(seed):
        return {"x": tf.strings.length(tf.strings.as_string(seed))}

    with pytest.raises(NotExportable):
        stablehlo.export(refused, SEED, {})


def test_a_text_with_unknown_operations_is_not_exported(monkeypatch):
    @tf.function(jit_compile=True, autograph=False)
    def known(seed):
        return {"x": seed + 1}

    assert stablehlo.export(known, SEED, {}).outputs == {"dict": {"x": [[], "int32"]}}
    monkeypatch.setattr(stablehlo, "_REWRITTEN", ())
    with pytest.raises(NotExportable, match="not as expected"):
        stablehlo.export(known, SEED, {})


@pytest.mark.parametrize(
    "data", [b"", b"program", zlib.compress(b"{"), zlib.compress(b"[1]"), b"\xff" * 99]
)
def test_other_bytes_are_refused(data):
    with pytest.raises(NotExportable, match="not a program"):
        Exported.from_bytes(data)
