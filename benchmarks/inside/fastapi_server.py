"""FastAPI endpoint that runs an ONNX model, one observation at a time.

It is what the documentation of FastAPI and ONNX Runtime leads to: an ``async def``
endpoint with a pydantic body, on uvicorn with uvloop and httptools.
"""

from __future__ import annotations

import sys

import fastapi
import numpy as np
import onnxruntime
import pydantic
import uvicorn


class Request(pydantic.BaseModel):
    """Body of a request."""

    observation: list[float]


def make_app(model: str) -> fastapi.FastAPI:
    """Return the application for the model of an export that explores."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(model, options, providers=providers)
    generator = np.random.default_rng()
    app = fastapi.FastAPI()

    async def act(request: Request) -> dict[str, float | int]:
        feeds = {
            "observation": np.asarray([request.observation], np.float32),
            "noise": generator.random(1, np.float32),
        }
        action, propensity = session.run(["action", "propensity"], feeds)
        return {"action": int(action[0]), "propensity": float(propensity[0])}

    # Annotations of a local function are read from this module.
    app.post("/v1/act")(act)
    return app


if __name__ == "__main__":
    uvicorn.run(
        make_app(sys.argv[1]),
        port=int(sys.argv[2]),
        log_level="warning",
        access_log=False,
        loop="uvloop",
        http="httptools",
    )
