"""ONNX Runtime, which runs exports of the format onnx; nothing of TensorFlow."""

from __future__ import annotations

import os
from typing import Any

from tfagents_batch.errors import UserError


def onnxruntime() -> Any:
    """Import ONNX Runtime without its telemetry.

    From 1.32 on, it keeps a database in the user's cache and sends what it measures.
    ``ORT_DISABLE_TELEMETRY=0`` leaves that on.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime
    except ImportError as error:
        raise UserError(
            "exports of the format onnx need onnxruntime, which is not installed; run "
            'pip install "tfagents_batch[serve]"'
        ) from error
    return onnxruntime
