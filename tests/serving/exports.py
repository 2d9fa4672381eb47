"""Small ONNX exports for tests: linear policies with exploration."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {
    "float32": TensorProto.FLOAT,
    "int32": TensorProto.INT32,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
}


def discrete(
    folder,
    *,
    size=4,
    actions=2,
    names=None,
    features=None,
    masked=False,
    exploration=0.1,
    hidden=0,
    ballast=0,
    name="run",
    step=100,
    seed=0,
    start=0,
):
    """Write a policy that is epsilon-greedy over linear values; return the folder.

    Args:
      folder: folder of the export, replaced if it exists.
      size: numbers of an observation.
      actions: number of actions.
      names, features: names of actions and ids of the observation's numbers, or None.
      masked: observe a mask, in a Dict with "action_mask" and "state".
      exploration: probability of a uniform action.
      hidden: width of hidden layers, for a large model; 0 for none.
      ballast: megabytes of weights of which a run reads a row.
      name, step: of the run.
      seed: seed of the weights.
      start: number of the first action.
    """
    generator = np.random.default_rng(seed)
    box = {"type": "Box", "shape": [size], "dtype": "float32", "low": "-inf"}
    box["high"] = "inf"
    space, key, mask = box, "observation", None
    inputs = [_input(key, "observation", [], [size], "float32")]
    if masked:
        key, mask = "observation_state", "observation_action_mask"
        bits = {"type": "Box", "shape": [actions], "dtype": "int8", "low": 0, "high": 1}
        space = {"type": "Dict", "spaces": {"action_mask": bits, "state": box}}
        inputs = [
            _input(mask, "observation", ["action_mask"], [actions], "int8"),
            _input(key, "observation", ["state"], [size], "float32"),
        ]
    values = _Graph()
    last, width = key, size
    for layer in range(3 if hidden else 0):
        weights = generator.normal(size=(width, hidden)) / np.sqrt(width)
        last = values.add("MatMul", last, values.constant(weights), to=f"m{layer}")
        last, width = values.add("Relu", last, to=f"r{layer}"), hidden
    weights = generator.normal(size=(width, actions))
    values.add("MatMul", last, values.constant(weights), to="linear")
    table = generator.random((ballast * 256 + 1, 1024), np.float32)
    row = values.add("ArgMax", last, to="row", axis=1, keepdims=0)
    row = values.add("Min", row, values.constant(ballast, np.int64), to="row_there")
    row = values.add("Gather", values.constant(table), row, to="table_row", axis=0)
    row = values.add("ReduceMax", row, values.constant([1], np.int64), to="most")
    row = values.add("Mul", row, values.constant(0.0), to="nothing")
    values.add("Add", "linear", row, to="values")
    if masked:
        values.cast(mask, "float32", to="valid")
    else:
        zero = values.add("Mul", "values", values.constant(0.0), to="zero")
        values.add("Add", zero, values.constant(1.0), to="valid")
    # The greedy action is the best of the valid ones.
    penalty = values.add("Sub", "valid", values.constant(1.0), to="penalty")
    penalty = values.add("Mul", penalty, values.constant(1e9), to="penalty_scaled")
    score = values.add("Add", "values", penalty, to="score")
    best = values.add("ArgMax", score, to="best", axis=1, keepdims=0)
    depth = values.constant(actions, np.int64)
    ends = values.constant([0.0, 1.0])
    greedy = values.add("OneHot", best, depth, ends, to="greedy", axis=-1)
    axes = values.constant([1], np.int64)
    count = values.add("ReduceSum", "valid", axes, to="count", keepdims=1)
    even = values.add("Div", "valid", count, to="even")
    even = values.add("Mul", even, values.constant(exploration), to="even_scaled")
    main = values.add("Mul", greedy, values.constant(1 - exploration), to="main")
    values.add("Add", main, even, to="probabilities")
    if exploration:
        inputs.append(
            _input("noise", "noise", [], [], "float32") | {"distribution": "uniform"}
        )
        upto = values.add(
            "CumSum", "probabilities", values.constant(1, np.int64), to="upto"
        )
        column = values.add("Unsqueeze", "noise", axes, to="column")
        # The total of the probabilities may be a little below 1.
        column = values.add("Mul", column, values.constant(0.999999), to="below")
        over = values.add("Greater", upto, column, to="over")
        over = values.cast(over, "float32", to="over_number")
        drawn = values.add("ArgMax", over, to="drawn", axis=1, keepdims=0)
    else:
        drawn = best
    depth = values.add("OneHot", drawn, depth, ends, to="chosen", axis=-1)
    chosen = values.add("Mul", depth, "probabilities", to="chosen_probability")
    values.add("ReduceSum", chosen, axes, to="propensity", keepdims=0)
    number = values.cast(drawn, "int32", to="number")
    values.add("Add", number, values.constant(start, np.int32), to="action")
    outputs = [
        _output("action", [], "int32"),
        _output("propensity", [], "float32"),
        _output("probabilities", [actions], "float32"),
        _output("values", [actions], "float32"),
    ]
    return write(
        folder,
        values,
        inputs,
        outputs,
        name=name,
        step=step,
        exploration=exploration,
        observation_space=space,
        action_space={"type": "Discrete", "n": actions, "start": start},
        actions=names,
        features=features,
        mask=mask,
    )


def pixels(folder):
    """Write a policy that takes the channel with the brightest pixel."""
    graph = _Graph()
    numbers = graph.cast("observation", "float32", to="numbers")
    axes = graph.constant([1, 2], np.int64)
    graph.add("ReduceMax", numbers, axes, to="values", keepdims=0)
    best = graph.add("ArgMax", "values", to="best", axis=1, keepdims=0)
    graph.cast(best, "int32", to="action")
    box = {"type": "Box", "shape": [4, 4, 3], "dtype": "uint8", "low": 0, "high": 255}
    return write(
        folder,
        graph,
        [_input("observation", "observation", [], [4, 4, 3], "uint8")],
        [_output("action", [], "int32"), _output("values", [3], "float32")],
        observation_space=box,
        action_space={"type": "Discrete", "n": 3, "start": 0},
    )


def continuous(folder, exploration=1.0):
    """Write a policy of two actions, normally distributed around the observation."""
    graph = _Graph()
    inputs = [_input("observation", "observation", [], [2], "float32")]
    outputs = [_output("action", [2], "float32")]
    if exploration:
        noise = _input("noise", "noise", [], [2], "float32")
        inputs.append(noise | {"distribution": "normal"})
        graph.add("Add", "observation", "noise", to="action")
        square = graph.add("Mul", "noise", "noise", to="square")
        axes = graph.constant([1], np.int64)
        total = graph.add("ReduceSum", square, axes, to="total", keepdims=0)
        half = graph.add("Mul", total, graph.constant(-0.5), to="half")
        constant = graph.constant(-np.log(2 * np.pi))
        graph.add("Add", half, constant, to="log_density")
        outputs.append(_output("log_density", [], "float32"))
    else:
        graph.add("Identity", "observation", to="action")
    box = {"type": "Box", "shape": [2], "dtype": "float32", "low": -1.0, "high": 1.0}
    return write(
        folder,
        graph,
        inputs,
        outputs,
        exploration=exploration,
        observation_space=box,
        action_space=box,
    )


def whole_numbers(folder):
    """Write a policy that observes a Discrete, a MultiDiscrete and a MultiBinary."""
    graph = _Graph()
    graph.cast("observation_one", "int32", to="action")
    spaces = {
        "bits": {"type": "MultiBinary", "n": 2},
        "one": {"type": "Discrete", "n": 3, "start": 1},
        "several": {"type": "MultiDiscrete", "nvec": [2, 2], "start": [0, 5]},
    }
    inputs = [
        _input("observation_bits", "observation", ["bits"], [2], "int8"),
        _input("observation_one", "observation", ["one"], [], "int32"),
        _input("observation_several", "observation", ["several"], [2], "int32"),
    ]
    return write(
        folder,
        graph,
        inputs,
        [_output("action", [], "int32")],
        observation_space={"type": "Dict", "spaces": spaces},
        action_space={"type": "Discrete", "n": 4, "start": 0},
    )


def recurrent(folder, state="state_0"):
    """Write a policy whose state is the sum of the observations of an episode.

    It takes action 1 if the sum is above 0. ``state`` is the name of the input.
    """
    graph = _Graph()
    start = graph.cast("episode_start", "float32", to="start")
    going = graph.add("Sub", graph.constant(1.0), start, to="going")
    axes = graph.constant([1], np.int64)
    going = graph.add("Unsqueeze", going, axes, to="going_column")
    old = graph.add("Mul", state, going, to="old")
    graph.add("Add", old, "observation", to=f"next_{state}")
    over = graph.add("Greater", f"next_{state}", graph.constant(0.0), to="over")
    over = graph.cast(over, "int32", to="over_number")
    graph.add("ReduceMax", over, axes, to="action", keepdims=0)
    box = {"type": "Box", "shape": [1], "dtype": "float32", "low": -1.0, "high": 1.0}
    return write(
        folder,
        graph,
        [
            _input("observation", "observation", [], [1], "float32"),
            _input("episode_start", "episode_start", [], [], "bool"),
            _input(state, "state", [], [1], "float32"),
        ],
        [_output("action", [], "int32"), _output(f"next_{state}", [1], "float32")],
        observation_space=box,
        action_space={"type": "Discrete", "n": 2, "start": 0},
    )


def write(folder, graph, inputs, outputs, **fields):
    """Write a folder with a model, its description and its parity rows."""
    folder = Path(folder)
    staged = folder.with_name(f".{folder.name}-new")
    staged.mkdir(parents=True)
    path = staged / "model.onnx"
    onnx.save(graph.model(inputs, outputs), path)
    np.savez(staged / "parity.npz", **_parity(path, inputs, outputs))
    names = "model.onnx", "parity.npz"
    metadata = {
        "schema": 1,
        "format": "onnx",
        "model": "model.onnx",
        "sha256": {name: _sha256(staged / name) for name in names},
        "name": "run",
        "algorithm": "dqn",
        "step": 100,
        "exploration": 0.0,
        "versions": {},
        "revision": None,
        "actions": None,
        "features": None,
        "mask": None,
    }
    metadata |= fields | {"inputs": inputs, "outputs": outputs}
    (staged / "export.json").write_text(json.dumps(metadata))
    if folder.exists():
        shutil.rmtree(folder)
    staged.rename(folder)
    return folder


def change(folder, **fields):
    """Change fields of ``export.json``."""
    path = Path(folder) / "export.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def add_to_values(folder, number, row=slice(None)):
    """Change the values that the check of an export expects."""
    path = Path(folder) / "parity.npz"
    rows = dict(np.load(path))
    rows["outputs/values"][row] += number
    np.savez(path, **rows)
    hashes = json.loads((folder / "export.json").read_text())["sha256"]
    change(folder, sha256=hashes | {path.name: _sha256(path)})


def _sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class _Graph:
    """Nodes and constants of an ONNX graph."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, value, dtype=np.float32):
        name = f"constant_{len(self.constants)}"
        array = np.asarray(value).astype(dtype)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, kind, *inputs, to, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [to], **attributes))
        return to

    def cast(self, name, dtype, to):
        self.nodes.append(helper.make_node("Cast", [name], [to], to=TYPES[dtype]))
        return to

    def model(self, inputs, outputs):
        def info(each):
            shape = ["batch", *each["shape"]]
            return helper.make_tensor_value_info(
                each["name"], TYPES[each["dtype"]], shape
            )

        graph = helper.make_graph(
            self.nodes,
            "policy",
            [info(each) for each in inputs],
            [info(each) for each in outputs],
            self.constants,
        )
        opset = helper.make_opsetid("", 18)
        return helper.make_model(graph, opset_imports=[opset], ir_version=9)


def _input(name, role, path, shape, dtype):
    return {"name": name, "role": role, "path": path, "shape": shape, "dtype": dtype}


def _output(name, shape, dtype):
    role = "next_state" if name.startswith("next_state") else name
    return {"name": name, "role": role, "shape": shape, "dtype": dtype}


def _parity(path, inputs, outputs, count=64):
    """Return random inputs and the model's outputs for them."""
    import onnxruntime

    generator = np.random.default_rng(5)
    feeds = {}
    for each in inputs:
        shape = (count, *each["shape"])
        if each["dtype"] == "float32":
            uniform = each.get("distribution") == "uniform"
            draw = generator.random if uniform else generator.standard_normal
            feeds[each["name"]] = draw(shape, np.float32)
        else:
            high = 2 if each["dtype"] != "uint8" else 256
            feeds[each["name"]] = generator.integers(0, high, shape).astype(
                each["dtype"]
            )
        if each["name"].endswith("action_mask"):
            feeds[each["name"]][:, 0] = 1
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [each["name"] for each in outputs]
    found = dict(zip(names, session.run(names, feeds), strict=True))
    return {f"inputs/{k}": x for k, x in feeds.items()} | {
        f"outputs/{k}": x for k, x in found.items()
    }
