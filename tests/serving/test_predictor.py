import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.serving import cases, exports
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import predict as script
from tfagents_batch.serving import export
from tfagents_batch.serving.predictor import Predictor

X = np.random.default_rng(0).normal(size=(5000, 4))


def test_importing_the_predictor_loads_only_numpy(simple):
    code = (
        "import sys\n"
        "from tfagents_batch.serving.predictor import Predictor\n"
        f"answer = Predictor.load({str(simple)!r}).act([[1, 2, 3, 4]])\n"
        "assert answer['action'].shape == (1,)\n"
        "wrong = {'tensorflow', 'keras', 'gymnasium', 'absl'} & {*sys.modules}\n"
        "assert not wrong, wrong"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_onnx_runtime_stores_and_sends_no_telemetry(simple, tmp_path):
    code = (
        "from tfagents_batch.serving.predictor import Predictor\n"
        f"Predictor.load({str(simple)!r})"
    )
    environment = {k: x for k, x in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", code]
    subprocess.run(command, env=environment, check=True, timeout=120)
    assert [*tmp_path.iterdir()] == []


def test_actions_are_drawn_with_their_propensities(simple):
    answer = Predictor.load(simple, seed=1).act(X)
    action, values = answer["action"], answer["values"]
    explored = action != values.argmax(-1)
    assert abs(explored.mean() - 0.05) < 3 * np.sqrt(0.05 * 0.95 / len(X))
    expected = np.where(explored, 0.05, 0.95)
    np.testing.assert_allclose(answer["propensity"], expected, rtol=1e-6)


def test_a_seed_and_given_noise_repeat_actions(simple):
    one, other = (Predictor.load(simple, seed=3).act(X)["action"] for _ in range(2))
    np.testing.assert_array_equal(one, other)
    predictor = Predictor.load(simple)
    noise = np.random.default_rng(5).random(len(X))
    one, other = (predictor.act(X, noise=noise)["action"] for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_predictions_are_greedy_and_draw_nothing(simple):
    predictor = Predictor.load(simple, seed=1)
    found = predictor.predict(X)
    np.testing.assert_array_equal(found["action"], found["values"].argmax(-1))
    assert "propensity" not in found
    expected = Predictor.load(simple, seed=1).act(X)["action"]
    np.testing.assert_array_equal(predictor.act(X)["action"], expected)


def test_numbers_of_actions_begin_at_the_start_of_the_space(tmp_path):
    folder = exports.discrete(tmp_path / "a", start=5, masked=True)
    predictor = Predictor.load(folder)
    observations = {"state": X[:2], "action_mask": [[1, 0], [0, 1]]}
    for ask in (predictor.act, predictor.predict):
        assert ask(observations)["action"].tolist() == [5, 6]


def test_a_normal_policy_has_densities_and_its_greedy_action_is_the_mean(tmp_path):
    predictor = Predictor.load(exports.continuous(tmp_path / "a"))
    answer = predictor.act(X[:, :2])
    away = answer["action"] - X[:, :2]
    expected = -0.5 * np.sum(away**2, -1) - np.log(2 * np.pi)
    np.testing.assert_allclose(answer["log_density"], expected, atol=1e-4)
    found = predictor.predict(X[:, :2])
    np.testing.assert_allclose(found["action"], X[:, :2], atol=1e-6)
    assert "log_density" not in found


def test_the_state_of_a_recurrent_policy_goes_out_and_in(tmp_path):
    predictor = Predictor.load(exports.recurrent(tmp_path / "a"))
    answer = predictor.act([[1.0], [-1.0]])
    assert answer["action"].tolist() == [1, 0]
    answer = predictor.act([[-0.5], [0.5]], state=answer["state"])
    assert answer["action"].tolist() == [1, 0]
    answer = predictor.act([[-0.5], [0.5]], [True, False], answer["state"])
    assert answer["state"][0].tolist() == [[-0.5], [0.0]]
    for state in (None, answer["state"]):  # one value for all rows
        answer = predictor.act([[2.0], [3.0]], episode_start=True, state=state)
        assert answer["state"][0].tolist() == [[2.0], [3.0]]


def test_pixels_stay_uint8(tmp_path):
    predictor = Predictor.load(exports.pixels(tmp_path / "a"))
    pixels = np.zeros((2, 4, 4, 3), np.uint8)
    pixels[0, 0, 0, 1] = pixels[1, 3, 3, 2] = 255
    assert predictor.act(pixels)["action"].tolist() == [1, 2]
    assert predictor.act(pixels.tolist())["action"].tolist() == [1, 2]
    with pytest.raises(UserError, match="observation is float64; expected uint8"):
        predictor.act(pixels / 255)


@pytest.mark.parametrize(
    ("observations", "message"),
    [
        ([[1, 2, 3]], r"observation has shape \[1, 3\]; .* shape \[B, 4\], a batch"),
        ([1, 2, 3, 4], "observation has 4 numbers"),
        ([[1, 2, 3, np.nan]], r"observation\[0, 3\] is nan"),
        (np.zeros((0, 4)), "expected the same number for all inputs, and at least one"),
    ],
)
def test_wrong_observations_are_user_errors(simple, observations, message):
    with pytest.raises(UserError, match=message):
        Predictor.load(simple).act(observations)


def test_wrong_masks_and_numbers_beyond_the_space_are_user_errors(named, tmp_path):
    masked, whole = Predictor.load(named), exports.whole_numbers(tmp_path / "a")
    whole = Predictor.load(whole)
    right = {"one": [1, 3], "several": [[0, 5], [1, 6]], "bits": [[0, 1], [1, 1]]}
    assert whole.act(right)["action"].shape == (2,)
    for predictor, wrong, message in (
        (masked, {"action_mask": [[1, 1], [0, 0]]}, r"action_mask\[1\] is all zeros"),
        (masked, {"action_mask": [[1, 1], [0, 2]]}, r"mask\[1, 1\] is 2; expected 1"),
        (masked, {}, "observation lacks action_mask; expected an object with"),
        (whole, {"one": [3, 77]}, r"one\[1\] is 77; expected from 1 to 3"),
        (whole, {"one": [0, 1]}, r"one\[0\] is 0; expected from 1"),
        (whole, {"several": [[0, 5], [0, 7]]}, r"several\[1, 1\] is 7; .* 5 to 6"),
        (whole, {"bits": [[0, 2], [0, 1]]}, r"bits\[0, 1\] is 2; expected from 0"),
        (whole, {"one": [1]}, "expected the same number for all inputs"),
    ):
        with pytest.raises(UserError, match=message):
            predictor.act(({"state": X[:2]} if predictor is masked else right) | wrong)


def truncate(folder):
    path = folder / "model.onnx"
    path.write_bytes(path.read_bytes()[:-100])


def rename_noise(folder):
    inputs = json.loads((folder / "export.json").read_text())["inputs"]
    exports.change(folder, inputs=[inputs[0], inputs[1] | {"name": "noises"}])


def cut_parity(folder):
    path = folder / "parity.npz"
    path.write_bytes(path.read_bytes()[:1000])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (truncate, r"model.onnx \(.* bytes\) is truncated or was changed"),
        (
            lambda x: exports.add_to_values(x, 2e-3, row=7),
            "fails its parity check: values differs .* in 2 of 128",
        ),
        (cut_parity, r"parity.npz \(1,000 bytes\) is truncated or was changed"),
        (lambda x: (x / "export.json").unlink(), "has no export.json"),
        (lambda x: (x / "export.json").write_text("{"), "export.json is no JSON"),
        (
            lambda x: exports.change(x, format="litert"),
            "format 'litert'; expected onnx",
        ),
        (lambda x: exports.change(x, schema=2), "has schema 2; this version reads"),
        (lambda x: exports.change(x, inputs=[{}]), "export.json lacks 'name'"),
        (lambda x: exports.change(x, inputs=[]), "misstates inputs"),
        (lambda x: exports.change(x, outputs=[]), "misstates outputs"),
        (rename_noise, "complete export: 'noise, noises' are in the model or in"),
        (
            lambda x: exports.change(x, model="../a/model.onnx"),
            "misstates sha256, which has no",
        ),
        (
            lambda x: exports.change(x, action_space={"type": "Discrete", "start": 0}),
            "complete export: .* misstates a Discrete, which lacks 'n'",
        ),
        (
            lambda x: exports.change(
                x, observation_space={"type": "Tuple", "spaces": [{"type": "Text"}]}
            ),
            "complete export: .* misstates a space of the type 'Text'",
        ),
        (
            lambda x: exports.change(x, action_space={"type": "Tuple", "spaces": []}),
            "complete export: .* misstates outputs, .* not those of action_space",
        ),
        (lambda x: exports.change(x, actions=["a"]), "misstates actions"),
        (lambda x: exports.change(x, name="run\udcff"), "surrogates not allowed"),
    ],
)
def test_a_spoilt_export_is_refused(tmp_path, spoil, message):
    folder = exports.discrete(tmp_path / "a")
    spoil(folder)
    with pytest.raises(UserError, match=message):
        Predictor.load(folder)


def test_differences_within_the_tolerance_pass(tmp_path):
    folder = exports.discrete(tmp_path / "a")
    exports.add_to_values(folder, 5e-5)
    Predictor.load(folder)


@pytest.mark.parametrize("case", cases.QUICK[:3])
def test_a_predictor_acts_like_the_agent_that_was_exported(case, tmp_path):
    policy, spec = cases.policy_of(*case)
    agent, folder = cases.agent_of(policy, spec), tmp_path / "export"
    origin = export.Origin({"name": "run", "algorithm": case[0]})
    export.write(policy, spec, 10**6, "onnx", folder, 0.0, origin)
    predictor, state, known = Predictor.load(folder), None, None
    for t in range(3):
        rows = cases.rows(spec.observation_space, 4, t)
        if "action_mask" in rows:
            rows["action_mask"][:, 0] = 1
        expected, known = agent.predict(rows, known)
        answer = predictor.act(rows, state=state)
        state = answer.get("state")
        np.testing.assert_allclose(answer["action"], expected, atol=1e-4)
        np.testing.assert_allclose(predictor.predict(rows)["action"].shape[0], 4)


def test_lines_of_json_are_predicted_in_order(named, tmp_path, monkeypatch, capsys):
    numbers = [-9.0, 0.0, 9.0]
    lines = [{"observation": {"0": 1.0, "3": x}} for x in numbers]
    lines[1]["possible_actions"] = ["right"]
    file = tmp_path / "lines.jsonl"
    file.write_text("".join(f"{json.dumps(x)}\n" for x in lines))
    assert script.main([f"--export={named}", f"--input={file}"]) == 0
    found = [json.loads(x) for x in capsys.readouterr().out.splitlines()]
    states = np.array([[1.0, x, 0.0, 0.0] for x in numbers])
    masks = np.array([[1, 1], [0, 1], [1, 1]], np.int8)
    predictor = Predictor.load(named)
    expected = predictor.predict({"state": states, "action_mask": masks})
    assert [x["action"] for x in found] == expected["action"].tolist()
    assert found[1]["action_name"] == "right"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            b'{"observation": {"0": 1}}\n{"observation": {"5": 1}}\n',
            "line 2: observation has the unknown feature",
        ),
        (
            b'{"observation": {"0": 1}}\n{"observation": {"0": 3e38, "3": 3e38}}\n',
            "line 2 leads to values of .* that are not finite",
        ),
        (b"no\n", "line 1: the body is no JSON"),
        (b'{"observation": {"0": "\xff"}}\n', "line 1: the body is no JSON: .* UTF-8"),
        (b'{"observations": [{"0": 1}]}\n', 'line 1: expected an object with "obs'),
        (b'{"observation": {"0": 1}, "mdp_id": "a"}\n', "line 1: expected an object"),
        (b'{"possible_actions": [0]}\n', "line 1: expected an object"),
        (
            b'{"observation": {"0": ' + b"[" * 975 + b"]" * 975 + b"}}\n",
            "line 1: lists or objects are nested too deeply",
        ),
    ],
)
@pytest.mark.parametrize("from_file", [True, False])
def test_a_wrong_line_is_named(named, tmp_path, monkeypatch, lines, message, from_file):
    flags = [f"--export={named}"]
    if from_file:
        (tmp_path / "lines").write_bytes(lines)
        flags.append(f"--input={tmp_path / 'lines'}")
    else:
        stdin = io.TextIOWrapper(io.BytesIO(lines), "ascii", "surrogateescape")
        monkeypatch.setattr("sys.stdin", stdin)
    with pytest.raises(UserError, match=message):
        script.main(flags)


def test_features_of_a_table_are_given_by_their_names(tmp_path):
    folder = exports.discrete(tmp_path / "a", size=2, features=[3, 7])
    exports.change(folder, names={"age": 3, "country": 7})
    exports.change(folder, categories={"country": ["DE", "FR"]})
    predictor = Predictor.load(folder)
    rows = [{"country": "FR", "age": 31}, {"3": 4.5}]
    numbers = np.float32([[31, 1], [4.5, 0]])
    found, expected = predictor.predict(rows), predictor.predict(numbers)
    np.testing.assert_array_equal(found["values"], expected["values"])
    with pytest.raises(UserError, match="unknown feature 'ctry'"):
        predictor.act([{"ctry": "FR"}])
