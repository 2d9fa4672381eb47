"""Runs exports as somebody without this package does.

    python tests/serving/foreign.py onnx FOLDER ...

In each folder is an export, and ``expected.npz`` with observations ``[T, N, ...]`` by
the names of inputs, ``episode_start``, and the actions of the agent. Prints the largest
difference of actions for each folder.
"""

import json
import pathlib
import sys

sys.modules["tfagents_batch"] = None  # cannot be imported
if sys.argv[1] == "onnx":
    sys.modules["tensorflow"] = sys.modules["keras"] = None

import numpy as np  # noqa: E402


def load(folder, format, model):
    path = str(folder / model)
    if format == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(path)
        names = [x.name for x in session.get_outputs()]
        return lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))
    if format == "saved_model":
        import tensorflow as tf

        module = tf.saved_model.load(path)

        def run(inputs):
            inputs = {name: tf.constant(x) for name, x in inputs.items()}
            outputs = module.signatures["serving_default"](**inputs)
            return {name: x.numpy() for name, x in outputs.items()}

        return run
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(path)
    runner = interpreter.get_signature_runner("serving_default")
    return lambda inputs: runner(**inputs)


def main(format, *folders):
    for folder in map(pathlib.Path, folders):
        facts = json.loads((folder / "export.json").read_text())
        expected = dict(np.load(folder / "expected.npz"))
        actions, run = expected.pop("actions"), load(folder, format, facts["model"])
        rows = actions.shape[1]
        states = [x for x in facts["inputs"] if x["role"] == "state"]
        state = {x["name"]: np.ones([rows, *x["shape"]], np.float32) for x in states}
        largest = 0.0
        for t, action in enumerate(actions):
            inputs = {name: x[t] for name, x in expected.items()}
            if not states:
                del inputs["episode_start"]
            outputs = run(inputs | state)
            assert outputs["action"].shape == action.shape
            state = {x["name"]: outputs[f"next_{x['name']}"] for x in states}
            difference = np.abs(outputs["action"].astype(np.float64) - action)
            largest = max(largest, float(difference.max()))
        print(json.dumps({"folder": folder.name, "difference": largest}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
