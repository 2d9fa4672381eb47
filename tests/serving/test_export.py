"""Exports: equal to the agent in processes without this package, checked, replaced."""

import contextlib
import io
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

import tfagents_batch as tfb
from tests.offline import timelines
from tests.serving import cases
from tests.support import untrained
from tfagents_batch import spaces
from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.scripts import export as script
from tfagents_batch.serving import export, functions, litert, parity
from tfagents_batch.serving.decision_function import DecisionFunction

FORMATS = "onnx", "saved_model", "litert"
NONE = export.Origin({"name": "run"})
SCRIPT = pathlib.Path(__file__).parent / "foreign.py"
TIME, ROWS = 3, 6


def played(agent):
    """Return observations by the names of inputs, episode starts, and actions."""
    generator = np.random.default_rng(1)
    starts = generator.random((TIME, ROWS)) < 0.3
    starts[0] = True
    function = DecisionFunction(agent._policy, agent_spec(agent), 0, 0.0)
    names = [x.name for x in function.inputs if x.role == "observation"]
    found, state = {name: [] for name in (*names, "actions")}, None
    for t in range(TIME):
        rows = cases.rows(agent.observation_space, ROWS, t)
        action, state = agent.predict(rows, state, starts[t])
        flat = spaces.flatten(agent.observation_space, rows)
        for name, x in zip(found, (*flat, action), strict=True):
            found[name].append(x)
    leaves = spaces.leaves(agent.observation_space)
    found = {name: np.stack(x) for name, x in found.items()}
    for name, leaf in zip(names, leaves, strict=True):
        found[name] = found[name].astype(leaf.dtype)
    return found | {"episode_start": starts}


def decided(function, given):
    """Return the outputs of a function as arrays."""
    inputs = {name: tf.constant(x) for name, x in given.items()}
    return {name: x.numpy() for name, x in function.decide(inputs).items()}


def agent_spec(agent):
    return cases.EnvSpec(1, agent.observation_space, agent.action_space, {})


def check(folder, chosen):
    """Export agents in all formats; compare them with the agents, elsewhere."""
    for case in chosen:
        policy, spec = cases.policy_of(*case)
        agent = cases.agent_of(policy, spec)
        expected = played(agent)
        for format in FORMATS:
            target = folder / format / cases.name(case)
            export.write(policy, spec, 10**6, format, target, 0.0, NONE)
            np.savez(target / "expected.npz", **expected)
    for format in FORMATS:
        folders = sorted(map(str, (folder / format).iterdir()))
        command = [sys.executable, str(SCRIPT), format, *folders]
        done = subprocess.run(command, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stderr[-3000:]
        lines = [json.loads(x) for x in done.stdout.splitlines() if x[0] == "{"]
        assert len(lines) == len(chosen)
        for line in lines:
            assert line["difference"] < 1e-4, (format, line)


def test_exports_act_like_the_agent_in_processes_without_this_package(tmp_path):
    check(tmp_path, cases.QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("case", cases.SLOW, ids=cases.name)
def test_each_kind_of_policy_acts_alike_in_each_format(case, tmp_path):
    check(tmp_path, [case])


SHARES = [
    ("dqn", "mask", "discrete", 0.2),
    ("ppo", "vector", "discrete", 0.5),
    ("ppo", "masks", "multi", 0.5),
    ("dqn", "masks", "multi", 0.5),
    ("ppo", "vector", "binary", 1.0),
]


@pytest.mark.parametrize("case", SHARES, ids=lambda x: "-".join(map(str, x)))
def test_actions_are_as_frequent_as_their_propensities_say(case):
    *names, share = case
    policy, spec = cases.policy_of(*names)
    function, count = DecisionFunction(policy, spec, 0, share), 40_000
    row = cases.rows(spec.observation_space, 1, seed=5)
    given = {
        x.name: np.repeat(np.asarray(part, x.dtype), count, 0)
        for x, part in zip(
            function.inputs, spaces.flatten(spec.observation_space, row), strict=False
        )
    }
    if function.mask:
        given[function.mask][:] = np.arange(given[function.mask].shape[1]) != 1
    size = function.inputs[-1].shape
    given["noise"] = np.random.default_rng(0).random((count, *size), np.float32)
    found = decided(function, given)
    actions, number, counts = np.unique(
        found["action"].reshape(count, -1),
        axis=0,
        return_inverse=True,
        return_counts=True,
    )
    propensity = np.zeros(len(actions))
    propensity[number.ravel()] = found["propensity"]
    np.testing.assert_allclose(found["propensity"], propensity[number.ravel()], 1e-6)
    assert 1 - 0.02 < propensity.sum() < 1 + 1e-5
    error = 3.5 * np.sqrt(propensity * (1 - propensity) / count) + 1e-9
    assert (np.abs(counts / count - propensity) <= error).all()
    if "probabilities" in found:
        start = int(spec.action_space.start)
        known = found["probabilities"][0][actions[:, 0] - start]
        np.testing.assert_allclose(known, propensity, rtol=1e-5)


@pytest.mark.parametrize("name", ["ppo", "sac", "td3"])
def test_samples_of_a_box_have_the_density_of_the_policy(name):
    policy, spec = cases.policy_of(name, "vector", "box")
    function = DecisionFunction(policy, spec, 10**6, 1.0)
    given = parity.inputs(function, cases.VECTOR)
    found = decided(function, given)
    observation, rows = tf.constant(given["observation"]), len(given["noise"])
    zeros, false = tf.zeros([rows]), tf.zeros([rows], tf.bool)
    step = tfb.TimeStep(observation, zeros, false, false, false, {})
    state = policy.initial_state(rows)
    sample, now = tf.constant(found["sample"]), tf.constant(10**6, tf.int64)
    expected = policy.log_density(step, state, sample, now).numpy()
    usual = np.abs(given["observation"]).max(-1) < 3
    usual &= (np.abs(given["noise"]) < 2).all(-1)
    np.testing.assert_allclose(
        found["log_density"][usual], expected[usual], rtol=1e-3, atol=2e-2
    )
    space = spec.action_space
    assert ((found["action"] >= space.low) & (found["action"] <= space.high)).all()


def exported(*flags):
    """Run the script; return the folder that it prints, and the other lines."""
    out, lines = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(lines):
        assert script.main(flags) == 0
    return pathlib.Path(out.getvalue().strip()), lines.getvalue()


def test_the_script_says_what_stays_with_the_caller_and_replaces_exports(tmp_path):
    wrapper = "FlattenObservation"
    options = {"wrappers": [wrapper], "num_envs": 1, "num_workers": 0}
    run = untrained.folder("ppo", "CartPole-v1", tmp_path, **options)
    folder, lines = exported(f"--logdir={run}")
    assert folder == run / "export-onnx"
    assert f"the wrapper {wrapper} is not part of the export" in lines
    assert "inputs compared with the policy" in lines
    facts = json.loads((folder / "export.json").read_text())
    assert facts["step"] == untrained.STEP and facts["name"] == run.name
    assert facts["env"] == "CartPole-v1" and facts["versions"]["tensorflow"]
    again, _ = exported(f"--logdir={run}", "--exploration=0.5")
    facts = json.loads((again / "export.json").read_text())
    assert again == folder and facts["exploration"] == 0.5
    assert sorted(x.name for x in run.glob("*export*")) == ["export-onnx"]


def test_names_of_actions_and_features_are_those_of_logged_rows(tmp_path):
    data = timelines.build(tmp_path / "data", timelines.walks(20))
    settings = {"network": {"hidden": [8]}}
    run = tfb.train_offline("bc", data, steps=2, logdir=tmp_path, settings=settings)
    done = tfb.export(run, outdir=tmp_path / "export")
    facts = json.loads((done.folder / "export.json").read_text())
    assert facts["actions"] == ["left", "right"] and facts["features"] == [*range(5)]
    shutil.rmtree(data)
    done = tfb.export(run, outdir=tmp_path / "export")
    assert "names of actions and features are left out" in done.notices[0]


WRONG = {
    "format is 'pickle'; expected one of onnx": {"format": "pickle"},
    "is not an earlier export alone, it has what": {"outdir": "taken"},
    "exploration is 2.0; expected 0 to 1": {"exploration": 2.0},
    "actions are a Box: .* expected 0, the mode, or 1": {"exploration": 0.5},
}


@pytest.mark.parametrize("message", WRONG)
def test_arguments_that_cannot_be_used_leave_no_file(message, tmp_path):
    run = untrained.folder("sac", "Pendulum-v1", tmp_path, num_envs=1, num_workers=0)
    (run / "taken").mkdir()
    before = sorted(tmp_path.rglob("*"))
    options = {"outdir": "export"} | WRONG[message]
    options["outdir"] = run / options["outdir"]
    with pytest.raises(UserError, match=message):
        tfb.export(run, **options)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_policy_with_nan_is_refused(tmp_path):
    policy, spec = cases.policy_of("dqn", "vector", "discrete")
    weight = policy.network.trainable_variables[0]
    weight.assign(np.full(weight.shape, np.nan, np.float32))
    with pytest.raises(UserError, match="values of the policy is NaN in row 0"):
        export.write(policy, spec, 0, "onnx", tmp_path / "export", 0.0, NONE)
    assert not list(tmp_path.iterdir())


def test_a_lite_model_with_unfrozen_variables_is_refused(tmp_path, monkeypatch):
    policy, spec = cases.policy_of("dqn", "vector", "discrete")
    frozen = functions.frozen

    def unfrozen(function):  # the converter writes NaN for variables
        constant = frozen(function)

        def call(*tensors):
            found = constant(*tensors)
            return [x * np.nan if x.dtype.is_floating else x for x in found]

        return call

    monkeypatch.setattr(litert.functions, "frozen", unfrozen)
    with pytest.raises(UserError, match="differs from its policy, so it was removed"):
        export.write(policy, spec, 0, "litert", tmp_path / "export", 0.0, NONE)
    assert not list(tmp_path.iterdir())


def test_only_an_earlier_export_is_replaced(tmp_path):
    policy, spec = cases.policy_of("dqn", "vector", "discrete")
    folder, link = tmp_path / "export", tmp_path / "link"
    export.write(policy, spec, 0, "onnx", folder, 0.0, NONE)
    export.write(policy, spec, 1, "onnx", folder, 0.0, NONE)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"it has notes\.txt"):
        export.write(policy, spec, 2, "onnx", folder, 0.0, NONE)
    link.symlink_to(folder)
    with pytest.raises(UserError, match="is a link; pass the folder"):
        export.write(policy, spec, 2, "onnx", link, 0.0, NONE)
    assert json.loads((folder / "export.json").read_text())["step"] == 1
    assert sorted(x.name for x in tmp_path.iterdir()) == ["export", "link"]


def test_a_file_that_comes_during_an_export_stays(tmp_path, monkeypatch):
    policy, spec = cases.policy_of("dqn", "vector", "discrete")
    folder, hashes = tmp_path / "export", export._hashes
    export.write(policy, spec, 0, "onnx", folder, 0.0, NONE)

    def collect(*arguments):
        (folder / "mine.txt").write_text("mine")
        return hashes(*arguments)

    monkeypatch.setattr(export, "_hashes", collect)
    with pytest.raises(UserError, match=r"it has mine\.txt"):
        export.write(policy, spec, 1, "onnx", folder, 0.0, NONE)
    assert (folder / "mine.txt").read_text() == "mine"
    assert json.loads((folder / "export.json").read_text())["step"] == 0


def test_a_disk_that_is_full_is_an_error_of_saving(tmp_path, monkeypatch):
    policy, spec = cases.policy_of("dqn", "vector", "discrete")

    def full(*_):
        raise tf.errors.OutOfRangeError(None, None, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", full)
    with pytest.raises(SaveError, match="written: OutOfRangeError: No space"):
        export.write(policy, spec, 0, "saved_model", tmp_path / "export", 0.0, NONE)
    assert not list(tmp_path.iterdir())


def test_parity_finds_a_wrong_policy_whose_values_are_tiny():
    policy, spec = cases.policy_of("dqn", "vector", "discrete")
    head = policy.network.trainable_variables[-2:]
    for x in head:
        x.assign(x * 1e-5)
    function = DecisionFunction(policy, spec, 0, 0.0)
    given = parity.inputs(function, spec.observation_space)

    def wrong(rows):
        found = decided(function, rows)
        changed = found["action"] != 3
        found["action"][:] = 3
        found["propensity"][changed] = np.nan
        return found

    def right(rows):
        return decided(function, rows)

    assert parity.compare(function, right, given)[0].problems == ()
    problems = parity.compare(function, wrong, given)[0].problems
    assert any(x.startswith("action differs") for x in problems)


def test_actions_of_equal_values_still_need_probabilities():
    policy, spec = cases.policy_of("dqn", "vector", "discrete")
    for x in policy.network.trainable_variables[-2:]:
        x.assign(x * 0)
    function = DecisionFunction(policy, spec, 0, 0.0)
    given = parity.inputs(function, spec.observation_space)

    def problems(propensity):
        def other(rows):
            found = decided(function, rows)
            found["action"][0] += 1
            found["propensity"][0] = propensity
            return found

        return parity.compare(function, other, given)[0].problems

    assert problems(1.0) == ()
    for wrong in (np.nan, -0.5, 1.5):
        assert problems(wrong) == ("propensity is not between 0 and 1 in all rows",)


ODD = gs.Dict(
    {
        "A": gs.Box(-1, 1, (2,)),
        "a": gs.Box(-1, 1, (2,)),
        "é": gs.Box(-(2**40), 2**40, (1,), np.int64),
        "in": gs.Dict({"action_mask": gs.Box(0, 1, (4,), np.int8)}),
        "u": gs.Box(0, 2**31 - 1, (1,), np.uint32),
    }
)


@pytest.mark.parametrize("format", FORMATS)
def test_odd_names_and_integers_are_exported(format, tmp_path, monkeypatch):
    monkeypatch.setitem(cases.OBSERVATIONS, "odd", ODD)
    policy, spec = cases.policy_of("dqn", "odd", "discrete")
    function = DecisionFunction(policy, spec, 0, 0.0)
    names = [x.name for x in function.inputs]
    assert len({x.lower() for x in names}) == len(names) and function.mask is None
    assert all(x.isascii() and x.isidentifier() for x in names)
    folder = tmp_path / "export"
    assert export.write(policy, spec, 0, format, folder, 0.0, NONE).parity.rows > 1000
