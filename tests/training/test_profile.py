import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import tfagents_batch as tfb
from tests.algorithms.cases import named
from tests.support import linear
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import UserError
from tfagents_batch.sources import rollout_settings
from tfagents_batch.training import profile
from tfagents_batch.training.assembly import Experiment
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.profile import Profile

CONFIG = RunConfig(
    algorithm="linear",
    env="counting",
    num_envs=2,
    num_workers=0,
    source=rollout_settings.RolloutSettings(length=10),
    eval_every=0,
    compile="off",
    settings=linear.Config(),
)
pytestmark = pytest.mark.usefixtures("linear")
PARTS = ["environment", "inference", "update", "transfer", "rest"]


@pytest.fixture(scope="module")
def experiment(linear):
    with Experiment(CONFIG, CONFIG.recipe(CountingEnv)) as experiment:
        experiment.start(0)
        experiment.program(2**62, rounds=1)
        yield experiment


@pytest.mark.xla
def test_workers_and_compiled_programs_are_profiled(library):
    config = dataclasses.replace(CONFIG, num_workers=2, compile="full")
    with Experiment(config, config.recipe(CountingEnv)) as experiment:
        experiment.start(0)
        found = profile.measure(experiment, 2)
    assert found.mode == "full"
    assert found.parts_ms["environment"] >= 0


def test_every_part_is_timed_and_variables_are_restored(experiment, tmp_path):
    before = named(experiment)
    found = profile.run(experiment, tmp_path, 2)
    after = named(experiment)
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)
    assert list(found.parts_ms) == PARTS
    assert all(ms >= 0 for ms in found.parts_ms.values())
    assert found.parts_ms["update"] > 0
    assert found.iteration_ms > 0
    assert sum(found.shares.values()) == pytest.approx(1)
    assert json.loads((tmp_path / profile.FILE).read_text()) == found.to_dict()
    assert list(tmp_path.glob("trace/plugins/profile/*/*.xplane.pb"))


def test_the_table_has_a_line_for_each_part_and_the_advice():
    parts = dict(zip(PARTS, [1.0, 2.0, 5.0, 1.0, 1.0], strict=True))
    found = Profile(9.5, parts, "full", 3, "larger minibatches")
    lines = found.table().splitlines()
    assert lines[0].split() == ["part", "ms", "share"]
    assert lines[3].split() == ["update", "5.00", "50%"]
    assert lines[-2].split() == ["iteration", "9.50"]
    assert lines[-1] == "larger minibatches"


def test_whole_episodes_are_profiled_and_other_sources_refused_at_once(tmp_path):
    options = {"env": "CartPole-v1", "num_envs": 2, "num_workers": 0, "eval_every": 0}
    options |= {"logdir": tmp_path, "profile": True, "compile": "off"}
    for algorithm, more in (
        ("ga3c", {"num_workers": 2}),
        ("a2c", {"rollout": {"wait_for": 1}, "num_workers": 2}),
    ):
        with pytest.raises(UserError, match="take turns"):
            tfb.train(algorithm, steps=100, **options | more)
    assert not list(tmp_path.iterdir())
    run = tfb.train("linear", steps=10, rollout={"episodes": 4}, **options)
    found = json.loads((Path(run.logdir) / profile.FILE).read_text())
    assert list(found["parts_ms"]) == PARTS
