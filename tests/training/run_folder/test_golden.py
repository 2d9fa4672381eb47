"""A run written by an earlier version loads, acts and continues as it did then.

``golden/`` is a run folder with schema 1 of config.json and of checkpoints, written by
commit 219699f. ``expected.json`` has the results of that commit. Under "later" it has
those of another commit for the two things that were changed on purpose in between: the
seed of ``tfb.evaluate``, and the reward at a time limit in the statistics of returns.
"""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.support.lines import saved
from tfagents_batch import api
from tfagents_batch.training.run_folder import config_file

GOLDEN = pathlib.Path(__file__).parent / "golden"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())
LATER = EXPECTED["later"]
# Prefixes of the names at that time, and today.
RENAMED = {
    "network/": "policy/network/",
    "observations/": "statistics/observations/",
    "returns/": "statistics/returns/",
    "algorithm/penalty": "learner/penalty",
}


@pytest.fixture
def folder(tmp_path):
    leave_out = shutil.ignore_patterns("expected.json")
    return shutil.copytree(GOLDEN, tmp_path / "run", ignore=leave_out)


def values(folder):
    """Return all values in the newest checkpoint, by name."""
    (path,) = folder.glob(f"checkpoints/*{max(saved(folder))}")
    names = sorted(json.loads((path / "manifest.json").read_text())["variables"])
    reader = tf.train.load_checkpoint(str(path / "variables"))
    key = "variables/{}/.ATTRIBUTES/VARIABLE_VALUE"
    return {n: reader.get_tensor(key.format(i)) for i, n in enumerate(names)}


def test_the_loaded_agent_acts_and_is_evaluated_as_before(folder, monkeypatch):
    agent = tfb.load(folder)
    observations = np.array(EXPECTED["observations"], np.float32)
    assert agent.step == 91
    assert [agent.predict(x)[0] for x in observations] == EXPECTED["actions"]
    assert tfb.evaluate(folder, episodes=4).returns.tolist() == LATER["returns"]
    monkeypatch.setattr(api, "_unseen_seed", lambda seed: seed)
    assert tfb.evaluate(folder, episodes=4).returns.tolist() == EXPECTED["returns"]


def test_the_resumed_run_ends_at_the_same_step_with_the_same_weights(folder):
    run = tfb.train(resume=folder, steps=160)
    expected = EXPECTED["variables"] | LATER["variables"]
    assert run.step == EXPECTED["step"] == expected.pop("algorithm/step")
    found = values(folder)
    for old, value in expected.items():
        prefix = next(prefix for prefix in RENAMED if old.startswith(prefix))
        name = RENAMED[prefix] + old.removeprefix(prefix)
        name = name.replace("/deviation", "/sum_of_squares")
        np.testing.assert_allclose(found[name], value, 1e-5, 1e-5, err_msg=name)
    rest = {name for name in found if not name.startswith(("learner/", "run/"))}
    assert len(rest) == len(expected) - 1  # the penalty is the learner's
    # The resumed run has today's format.
    assert json.loads((folder / "config.json").read_text())["schema"] == 2
    assert tfb.load(folder).step == run.step


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"rollout_length": 16, "update_every": None}, (16, None)),
        ({"rollout_length": 256, "update_every": 4}, (256, 4)),
    ],
)
def test_settings_of_the_source_are_read_from_an_old_config(old, new):
    data = json.loads((GOLDEN / "config.json").read_text())
    data["config"] |= old
    config, _ = config_file.from_text(json.dumps(data))
    assert (config.source.length, config.source.episodes) == new
    again, _ = config_file.from_text(config_file.to_text(config, config.env, None))
    assert again == config
