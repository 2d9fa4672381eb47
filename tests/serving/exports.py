"""Small ONNX exports for tests: linear policies with exploration."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import helper, numpy_helper


def box(*shape, dtype="float32", low="-inf", high="inf"):
    """Return the JSON of a Box."""
    bounds = {"low": low, "high": high}
    return {"type": "Box", "shape": [*shape], "dtype": dtype, **bounds}


def numbers(n, start=0):
    """Return the JSON of a Discrete space."""
    return {"type": "Discrete", "n": n, "start": start}


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
    constants = {
        "zero": 0.0,
        "one": 1.0,
        "huge": 1e9,
        "below": 0.999999,  # the total of the probabilities may be a little below 1
        "share": exploration,
        "rest": 1 - exploration,
        "ends": [0.0, 1.0],
        "axis": 1,
        "axes": [1],
        "depth": actions,
        "start": np.int32(start),
        "last_row": ballast * 256,
        "table": generator.random((ballast * 256 + 1, 1024)),
    }
    observation, space = "observation", box(size)
    inputs = [f"float[batch, {size}] observation"]
    if masked:
        observation, bits = "observation_state", box(actions, dtype="int8")
        space = {"type": "Dict", "spaces": {"action_mask": bits, "state": space}}
        inputs = [
            f"int8[batch, {actions}] observation_action_mask",
            f"float[batch, {size}] observation_state",
        ]
    layers, last = "", observation
    widths = [size, *[hidden] * (3 if hidden else 0)]
    for k, (rows, columns) in enumerate(itertools.pairwise(widths)):
        constants[f"w{k}"] = generator.normal(size=(rows, columns)) / np.sqrt(rows)
        layers += f"m{k} = MatMul({last}, w{k})  r{k} = Relu(m{k})\n"
        last = f"r{k}"
    constants["w"] = generator.normal(size=(widths[-1], actions))
    drawn = "drawn = Identity(best)"
    if exploration:
        inputs.append("float[batch] noise")
        drawn = """
            upto = CumSum(probabilities, axis)
            column = Unsqueeze(noise, axes)
            scaled = Mul(column, below)
            over = Greater(upto, scaled)
            over_number = Cast <to = 1> (over)
            drawn = ArgMax <axis = 1, keepdims = 0> (over_number)
        """
    valid = "nothing = Mul(values, zero)  valid = Add(nothing, one)"
    if masked:
        valid = "valid = Cast <to = 1> (observation_action_mask)"
    outputs = "int32[batch] action, float[batch] propensity, "
    outputs += f"float[batch, {actions}] probabilities, float[batch, {actions}] values"
    # The greedy action is the best of the valid ones.
    text = f"""
        policy ({", ".join(inputs)}) => ({outputs}) {{
            {layers}
            linear = MatMul({last}, w)
            row = ArgMax <axis = 1, keepdims = 0> ({last})
            known_row = Min(row, last_row)
            ballast = Gather(table, known_row)
            most = ReduceMax(ballast, axes)
            weightless = Mul(most, zero)
            values = Add(linear, weightless)
            {valid}
            penalty = Sub(valid, one)
            far = Mul(penalty, huge)
            score = Add(values, far)
            best = ArgMax <axis = 1, keepdims = 0> (score)
            greedy = OneHot(best, depth, ends)
            main = Mul(greedy, rest)
            count = ReduceSum(valid, axes)
            even = Div(valid, count)
            random = Mul(even, share)
            probabilities = Add(main, random)
            {drawn}
            chosen = OneHot(drawn, depth, ends)
            kept = Mul(chosen, probabilities)
            propensity = ReduceSum <keepdims = 0> (kept, axes)
            number = Cast <to = 6> (drawn)
            action = Add(number, start)
        }}
    """
    return write(
        folder,
        text,
        constants,
        name=name,
        step=step,
        exploration=exploration,
        observation_space=space,
        action_space=numbers(actions, start),
        actions=names,
        features=features,
        mask="observation_action_mask" if masked else None,
    )


def pixels(folder):
    """Write a policy that takes the channel with the brightest pixel."""
    text = """
        policy (uint8[batch, 4, 4, 3] observation)
            => (int32[batch] action, float[batch, 3] values) {
            numbers = Cast <to = 1> (observation)
            values = ReduceMax <keepdims = 0> (numbers, axes)
            best = ArgMax <axis = 1, keepdims = 0> (values)
            action = Cast <to = 6> (best)
        }
    """
    space = box(4, 4, 3, dtype="uint8", low=0, high=255)
    spaces = {"observation_space": space, "action_space": numbers(3)}
    return write(folder, text, {"axes": [1, 2]}, **spaces)


def continuous(folder, exploration=1.0):
    """Write a policy of two actions, normally distributed around the observation."""
    text = """
        policy (float[batch, 2] observation) => (float[batch, 2] action) {
            action = Identity(observation)
        }
    """
    if exploration:
        text = """
            policy (float[batch, 2] observation, float[batch, 2] noise)
                => (float[batch, 2] action, float[batch] log_density) {
                action = Add(observation, noise)
                square = Mul(noise, noise)
                total = ReduceSum <keepdims = 0> (square, axes)
                half = Mul(total, scale)
                log_density = Add(half, shift)
            }
        """
    constants = {"axes": [1], "scale": -0.5, "shift": -np.log(2 * np.pi)}
    space = box(2, low=-1.0, high=1.0)
    spaces = {"observation_space": space, "action_space": space}
    return write(folder, text, constants, exploration=exploration, **spaces)


def whole_numbers(folder):
    """Write a policy that observes a Discrete, a MultiDiscrete and a MultiBinary."""
    text = """
        policy (int8[batch, 2] observation_bits, int32[batch] observation_one,
                int32[batch, 2] observation_several) => (int32[batch] action) {
            action = Identity(observation_one)
        }
    """
    spaces = {
        "bits": {"type": "MultiBinary", "n": 2},
        "one": numbers(3, start=1),
        "several": {"type": "MultiDiscrete", "nvec": [2, 2], "start": [0, 5]},
    }
    space = {"type": "Dict", "spaces": spaces}
    return write(folder, text, {}, observation_space=space, action_space=numbers(4))


def recurrent(folder, state="state_0"):
    """Write a policy whose state is the sum of the observations of an episode.

    It takes action 1 if the sum is above 0. ``state`` is the name of the input.
    """
    text = f"""
        policy (float[batch, 1] observation, bool[batch] episode_start,
                float[batch, 1] "{state}")
            => (int32[batch] action, float[batch, 1] "next_{state}") {{
            first = Cast <to = 1> (episode_start)
            later = Sub(one, first)
            column = Unsqueeze(later, axes)
            old = Mul("{state}", column)
            "next_{state}" = Add(old, observation)
            over = Greater("next_{state}", zero)
            number = Cast <to = 6> (over)
            action = ReduceMax <keepdims = 0> (number, axes)
        }}
    """
    constants = {"zero": 0.0, "one": 1.0, "axes": [1]}
    space = box(1, low=-1.0, high=1.0)
    spaces = {"observation_space": space, "action_space": numbers(2)}
    return write(folder, text, constants, **spaces)


def write(folder, text, constants, **fields):
    """Write a folder with a model, its description and its parity rows.

    Args:
      folder: folder of the export, replaced if it exists.
      text: graph of the model, in ONNX's text format.
      constants: numbers that it uses, by name.
      **fields: of ``export.json``.
    """
    folder = Path(folder)
    staged = folder.with_name(f".{folder.name}-new")
    staged.mkdir(parents=True)
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]>{text}')
    for name, value in constants.items():
        array = np.asarray(value)
        array = array.astype(np.float32) if array.dtype.kind == "f" else array
        if any(name in node.input for node in model.graph.node):
            model.graph.initializer.append(numpy_helper.from_array(array, name))
    path = staged / "model.onnx"
    onnx.save(model, path)
    inputs, outputs = map(_described, (model.graph.input, model.graph.output))
    np.savez(staged / "parity.npz", **_parity(path, inputs, outputs))
    files = "model.onnx", "parity.npz"
    metadata = {
        "schema": 1,
        "format": "onnx",
        "model": "model.onnx",
        "sha256": {name: _sha256(staged / name) for name in files},
        "name": "run",
        "algorithm": "dqn",
        "step": 100,
        "exploration": 0.0,
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


def _described(values):
    """Return the entries of ``export.json`` on inputs or outputs."""
    found = []
    for each in values:
        kind = each.type.tensor_type
        role, _, path = each.name.partition("_")
        if role != "observation":
            role, path = each.name.rstrip("_.0123456789"), ""
        described = {
            "name": each.name,
            "role": role,
            "shape": [x.dim_value for x in kind.shape.dim[1:]],
            "dtype": helper.tensor_dtype_to_np_dtype(kind.elem_type).name,
            "path": [path] if path else [],
        }
        if role == "noise":
            described["distribution"] = "normal" if described["shape"] else "uniform"
        found.append(described)
    return found


def _parity(path, inputs, outputs, count=64):
    """Return random inputs and the model's outputs for them."""
    import onnxruntime

    generator = np.random.default_rng(5)
    feeds = {}
    for each in inputs:
        name, shape = each["name"], (count, *each["shape"])
        if each["dtype"] == "float32":
            uniform = each.get("distribution") == "uniform"
            draw = generator.random if uniform else generator.standard_normal
            feeds[name] = draw(shape, np.float32)
        else:
            high = 2 if each["dtype"] != "uint8" else 256
            feeds[name] = generator.integers(0, high, shape).astype(each["dtype"])
        if name.endswith("action_mask"):
            feeds[name][:, 0] = 1
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [each["name"] for each in outputs]
    found = {f"inputs/{k}": x for k, x in feeds.items()}
    for name, x in zip(names, session.run(names, feeds), strict=True):
        found[f"outputs/{name}"] = x
    return found
