"""Exports from somebody else: an error of one line, at once, and nothing else."""

import hashlib
import io
import json
import os
import zipfile

import numpy as np
import pytest

from tests.serving import exports
from tfagents_batch.errors import UserError
from tfagents_batch.serving import export
from tfagents_batch.serving.predictor import Predictor

# A file that cannot be read to its end must not be opened at all.
pytestmark = pytest.mark.timeout(20)


def facts(folder):
    return json.loads((folder / "export.json").read_text())


def replace_by_pipe(name):
    def spoil(folder):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return spoil


def replace_by_link(name, target="/dev/zero"):
    def spoil(folder):
        (folder / name).unlink()
        (folder / name).symlink_to(target)

    return spoil


def also_hash(name):
    """Name a file that does not belong to the folder."""
    return lambda x: exports.change(x, sha256=facts(x)["sha256"] | {name: "0" * 64})


def grow(name, size):
    return lambda folder: os.truncate(folder / name, size)


def nest(key, depth):
    def spoil(folder):
        text = json.dumps(facts(folder) | {key: "HERE"})
        deep = '{"type": "Tuple", "spaces": [' * depth + "]}" * depth
        (folder / "export.json").write_text(text.replace('"HERE"', deep))

    return spoil


def changed(**fields):
    return lambda folder: exports.change(folder, **fields)


def of_array(where, **fields):
    """Change an entry of the first input or output."""

    def spoil(folder):
        first, *rest = facts(folder)[where]
        exports.change(folder, **{where: [first | fields, *rest]})

    return spoil


def parity(change):
    """Change the parity rows, and their hash with them."""

    def spoil(folder):
        path = folder / "parity.npz"
        change(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        exports.change(folder, sha256=facts(folder)["sha256"] | {path.name: digest})

    return spoil


def without_rows(path):
    rows = {name: x[:0] for name, x in np.load(path).items()}
    np.savez(path, **rows)


def with_text(path):
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("inputs/other", b"text")


def bomb(path):
    """Write rows of 2 GiB in 2 MB."""
    header = io.BytesIO()
    described = {"descr": "<f4", "fortran_order": False, "shape": (1 << 27, 4)}
    np.lib.format.write_array_header_1_0(header, described)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("inputs/observation.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for _ in range(128):
            member.write(bytes(1 << 24))


def endless_header(path):
    """Write a header that promises more than any memory has."""
    header = io.BytesIO()
    described = {"descr": "<f4", "fortran_order": False, "shape": (1 << 50, 4)}
    np.lib.format.write_array_header_1_0(header, described)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("inputs/observation.npy", header.getvalue())


DISCRETE = exports.numbers(2)
SPOILT = {
    "pipe": (replace_by_pipe("export.json"), "export.json is not a regular file"),
    "pipe of the model": (replace_by_pipe("model.onnx"), "is not a regular file"),
    "pipe of the rows": (replace_by_pipe("parity.npz"), "is not a regular file"),
    "device": (replace_by_link("export.json"), "export.json is a symbolic link"),
    "device of the model": (replace_by_link("model.onnx"), "is a symbolic link"),
    "hash of a device": (also_hash("/dev/zero"), "sha256 of '/dev/zero', which is no"),
    "hash above": (also_hash("../outside"), "sha256 of '../outside', which is no file"),
    "hash of a folder": (also_hash(".."), "sha256 of '..', which is no file"),
    "hash that is no text": (changed(sha256={"model.onnx": 1}), "misstates sha256"),
    "many hashes": (
        changed(sha256={str(k): "0" * 64 for k in range(100)}),
        "sha256, which has no hashes of at most 64",
    ),
    "long description": (grow("export.json", 1 << 25), "more than 16,777,216 bytes"),
    "long model": (grow("model.onnx", 1 << 40), "has 1,099,511,627,776 bytes"),
    "nested": (nest("observation_space", 100), "nested more than 16 deep"),
    "nested actions": (nest("action_space", 100), "nested more than 16 deep"),
    "very nested": (nest("observation_space", 200_000), "is no JSON|misstates"),
    "many actions": (changed(action_space=exports.numbers(10**9)), "misstates n of"),
    "no actions": (changed(action_space=exports.numbers(0)), "misstates n of"),
    "half an action": (changed(action_space=exports.numbers(2.5)), "misstates n of"),
    "text for n": (changed(action_space=exports.numbers("2")), "misstates n of"),
    "other actions": (changed(action_space=exports.numbers(3)), "probabilities, which"),
    "negative size": (of_array("inputs", shape=[-4]), "misstates shape of observ"),
    "large size": (of_array("inputs", shape=[10**12]), "misstates shape of observ"),
    "other size": (
        lambda x: (
            of_array("inputs", shape=[5])(x),
            exports.change(x, observation_space=exports.box(5)),
        ),
        "'inputs/observation of parity.npz' is float32 of shape",
    ),
    "no dtype": (of_array("inputs", dtype="object"), "dtype of observation, which is"),
    "other dtype": (of_array("inputs", dtype="float64"), "is float32 of shape"),
    "other output": (of_array("outputs", dtype="int64"), "outputs/action of parity"),
    "other role": (of_array("inputs", role="secret"), "role of observation, which is"),
    "two names": (
        lambda x: exports.change(x, outputs=[*facts(x)["outputs"]] * 2),
        "outputs, which has a name twice",
    ),
    "name of no feature": (changed(features=[0, 3], names={"a": 4}), "misstates names"),
    "name of a number": (changed(features=[0, 3], names={"3": 0}), "misstates names"),
    "a feature with two names": (
        changed(features=[0], names={"a": 0, "b": 0}),
        "misstates names",
    ),
    "names as a list": (changed(features=[0], names=["a"]), "misstates"),
    "categories without a name": (changed(categories={"a": ["x"]}), "misstates categ"),
    "categories that are text": (
        changed(features=[0], names={"a": 0}, categories={"a": "xy"}),
        "misstates a, which is no list",
    ),
    "newline in name": (changed(name="a\nserving b"), "misstates name"),
    "escape in name": (changed(name="a\x1b[2J"), "misstates name"),
    "newline in algorithm": (changed(algorithm="a\r\nb"), "misstates algorithm"),
    "separator in name": (changed(name="a\u2028b"), "misstates name"),
    "infinite step": (changed(step=float("inf")), "misstates step"),
    "text for step": (changed(step="100"), "misstates step"),
    "exploration": (changed(exploration=float("nan")), "misstates exploration"),
    "true features": (changed(features=[True, False, 2, 3]), "misstates features"),
    "features twice": (changed(features=[1, 1, 2, 3]), "misstates features"),
    "names twice": (changed(actions=["a", "a"]), "misstates actions"),
    "names that are numbers": (changed(actions=[1, 2]), "misstates actions"),
    "other mask": (changed(mask="noise"), "misstates mask, which is 'noise'"),
    "box without dtype": (
        changed(observation_space={"type": "Box", "shape": [4], "dtype": "|O"}),
        "dtype of a Box",
    ),
    "no rows": (parity(without_rows), "with at least one row"),
    "rows of a bomb": (parity(bomb), "it has 2,147,483,"),
    "rows without end": (parity(endless_header), "parity.npz cannot be read"),
    "rows that are text": (parity(with_text), "'inputs/other' is in parity.npz"),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_a_hostile_export_is_an_error_of_one_line(tmp_path, kind):
    spoil, message = SPOILT[kind]
    folder = exports.discrete(tmp_path / "a")
    spoil(folder)
    with pytest.raises(UserError, match=message) as caught:
        Predictor.load(folder)
    text = str(caught.value)
    assert len(text.splitlines()) == 1 and len(text) < 1000 + 3 * len(str(folder))


def test_a_space_that_numpy_cannot_broadcast_is_refused(tmp_path):
    folder = exports.whole_numbers(tmp_path / "a")
    space = facts(folder)["observation_space"]
    space["spaces"]["several"] |= {"nvec": [2, 2, 2], "start": [0, 0, 0]}
    exports.change(folder, observation_space=space)
    with pytest.raises(UserError, match="shape of observation_several, which is"):
        Predictor.load(folder)


@pytest.mark.parametrize("name", ["episode_start", "next_state_0"])
def test_a_state_without_its_parts_is_refused(tmp_path, name):
    folder = exports.recurrent(tmp_path / "a")
    for where in ("inputs", "outputs"):
        kept = [x for x in facts(folder)[where] if x["name"] != name]
        exports.change(folder, **{where: kept})
    with pytest.raises(UserError, match=f"lacks '{name}'|misstates {name}"):
        Predictor.load(folder)


def test_an_export_is_not_written_over_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "export.json")
    with pytest.raises(UserError, match="is not an earlier export alone"):
        export._check_target(tmp_path)


def test_the_server_refuses_a_hostile_export_and_goes_on(serve, simple, tmp_path):
    app = serve(simple, admin_token="admin")
    pipe = exports.discrete(simple.parent / "pipe")
    replace_by_pipe("export.json")(pipe)
    answer = app.change({"export": str(pipe)})
    assert answer.status == 422 and "is not a regular file" in answer.body["error"]
    assert app.ask("/v1/act", {"observation": [0, 0, 0, 0]}).status == 200
