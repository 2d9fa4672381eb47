"""Calls of the hub as TensorFlow ops: StableHLO modules with a custom call.

The op runs in XLA programs, in graphs and eagerly. Outside XLA it is cheaper than a
compiled function that contains the call. The library has custom calls for CPUs and for
GPUs; XLA takes those of the device for which it compiles.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from tfagents_batch.devices import placement

_VERSION = 9  # version of the op's conventions
_PLATFORMS = ("CPU", "CUDA")
_MLIR = {"bool": "i1", "uint": "ui", "int": "i", "float": "f"}


class Calls:
    """Calls of the hub of this handle, the counterpart of ``HostCalls``."""

    def __init__(self, handle: int, outputs: Sequence[tf.TensorSpec]):
        self._outputs = tuple(outputs)
        self._attributes = f"handle = {handle} : i64"

    def init(self, seed: tf.Tensor) -> list[tf.Tensor]:
        """Start every environment with an integer seed; return the outputs."""
        inputs = [tf.cast(seed, tf.int64)]
        return self._call("tfab_init", inputs, self._outputs)

    def step(self, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Step with token and action leaves of known shapes; return the outputs."""
        return self._call("tfab_step", inputs, self._outputs)

    def send(self, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Send token, int32 ``[k]`` groups and action leaves; return the next token."""
        return self._call("tfab_send", inputs, self._outputs[:1])

    def receive(
        self, inputs: Sequence[tf.Tensor], outputs: Sequence[tf.TensorSpec]
    ) -> list[tf.Tensor]:
        """Receive with token and optional groups; return tensors like ``outputs``."""
        return self._call("tfab_receive", inputs, tuple(outputs))

    def ok(self, token: tf.Tensor) -> tf.Tensor:
        """Return bool ``[]``, false after a stop or a failure."""
        return self._call("tfab_ok", [token], (tf.TensorSpec([], tf.bool),))[0]

    def _call(
        self, name: str, inputs: Sequence[tf.Tensor], outputs: tuple[tf.TensorSpec, ...]
    ) -> list[tf.Tensor]:
        kinds = tuple(_type(x.shape, x.dtype) for x in inputs)
        module = _module(name, kinds, outputs, self._attributes)
        with placement.stepping():
            constants = [
                tf.stop_gradient(x) if x.dtype.is_floating else x for x in inputs
            ]
            return call(module, constants, outputs, _PLATFORMS)


def call(
    module: str,
    inputs: Sequence[tf.Tensor],
    outputs: Sequence[tf.TensorSpec],
    platforms: Sequence[str] = ("CPU",),
) -> list[tf.Tensor]:
    """Return the results of the ``main`` function of a StableHLO text.

    With several platforms, TensorFlow passes an int32 scalar before the inputs: the
    index of the current platform.
    """
    results: Any = xla.call_module(
        list(inputs),
        version=_VERSION,
        module=module,
        Tout=[spec.dtype for spec in outputs],
        Sout=[spec.shape for spec in outputs],
        platforms=tuple(platforms),
    )
    return results


@functools.lru_cache(maxsize=256)
def _module(
    name: str,
    inputs: tuple[str, ...],
    outputs: tuple[tf.TensorSpec, ...],
    attributes: str,
) -> str:
    results = [_type(spec.shape, spec.dtype) for spec in outputs]
    parameters = ", ".join(f"%arg{i}: {kind}" for i, kind in enumerate(inputs))
    arguments = ", ".join(f"%arg{i}" for i in range(len(inputs)))
    values = [f"%0#{i}" for i in range(len(results))] if len(results) > 1 else ["%0"]
    count = f":{len(results)}" if len(results) > 1 else ""
    types = ", ".join(results)
    # TensorFlow passes the index in _PLATFORMS, which XLA discards.
    return f"""module @{name} {{
  func.func public @main(%platform: tensor<i32>, {parameters}) -> ({types}) {{
    %0{count} = stablehlo.custom_call @{name}({arguments}) {{
      api_version = 4 : i32, has_side_effect = true,
      backend_config = {{{attributes}}}
    }} : ({", ".join(inputs)}) -> ({types})
    return {", ".join(values)} : {types}
  }}
}}"""


def _type(shape: tf.TensorShape, dtype: tf.DType) -> str:
    sizes = "".join(f"{size}x" for size in shape.as_list())
    name = dtype.name.rstrip("0123456789")
    return f"tensor<{sizes}{_MLIR[name]}{dtype.name.removeprefix(name)}>"
