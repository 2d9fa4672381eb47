"""Program of one iteration: collect, then update unless an environment failed."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch.envs.graph.function import function
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Algorithm, Env, Metrics, Source
from tfagents_batch.ops import constants
from tfagents_batch.ops.single_call import single_call
from tfagents_batch.training.metrics import collected
from tfagents_batch.training.overlap import Overlapped

Program = Callable[[tf.Tensor], Metrics]
Save = Callable[[Program, dict[str, Any], list[Env]], Program]

_LOG = logging.getLogger("tfagents_batch")


class Plan(NamedTuple):
    """Choice of the parts that XLA compiles.

    Attributes:
      modes: "full", "update", "parts" (of the update) or "off", in the order to try.
        The first mode that XLA does not refuse is used.
      reason: reason for the first mode.
    """

    modes: list[str]
    reason: str


def build(
    source: Source,
    algorithm: Algorithm,
    compile: str = "auto",
    device: str = "cpu",
    actor: Algorithm | None = None,
    info: Sequence[str] = (),
    save: Save | None = None,
) -> Compiled:
    """Build the program that joins a source and an algorithm.

    Args:
      source, algorithm: as in ``algorithm.update(source(seed), seed)``.
      compile: "full", "update", "off" or "auto": the part that XLA compiles. If XLA
        refuses an operation, "auto" continues uncompiled and logs a warning.
      device: "cpu" or "gpu", where updates run.
      actor: the source's policy if collecting overlaps with updating, see ``overlap``;
        with None, they take turns.
      info: info columns to report, see ``metrics.episode_info_metrics``.
      save: saves a fully compiled program for later starts, see
        ``compilation.program_saver``; None does not save it.

    Returns:
      A function of an int32 scalar seed. If ``source.ok()`` becomes false, weights and
      statistics do not change. Failed environments raise ``EnvError`` after the
      program has returned.

    Raises:
      UserError: if the device or the compile option is not available.
    """
    if compile == "full" and device == "gpu":
        raise UserError(
            "--compile=full makes one program, which cannot run both on the CPU, where "
            "environments are stepped, and on the GPU; use --compile=update"
        )
    if compile == "full" and not source.compilable:
        raise UserError(
            "--compile=full needs environments that run under XLA; these are "
            "stepped in this process, or without a C++ compiler; use --compile=update"
        )
    if device == "gpu" and not tf.config.get_visible_devices("GPU"):
        raise UserError(
            "--device=gpu, but TensorFlow sees no GPU; use --device=cpu, or start a "
            "new process if this one has trained on the CPU"
        )
    chosen = plan(source.compilable, algorithm.compilable, compile, device)

    def make(mode: str) -> Program:
        update = _update(algorithm, mode)
        if actor is None:
            joined = _join(source, update, device, mode, info)
            if save is None or mode != "full":
                return joined
            return save(joined, _variables(source, algorithm), [source.env])
        collecting = mode == "full"
        where = place(device)
        return Overlapped(source, algorithm, actor, update, where, collecting, info)

    return Compiled(make, chosen)


def plan(
    source: bool, algorithm: bool, compile: str = "auto", device: str = "cpu"
) -> Plan:
    """Choose the parts that XLA compiles.

    Args:
      source, algorithm: whether each is ``compilable``.
      compile: the setting; "auto" leaves the choice to this function.
      device: device of the update; one program cannot run on two devices.
    """
    if compile != "auto":
        return Plan([compile], "set by the user")
    if device == "gpu":
        reason = "environments are stepped on the CPU, the update runs on the GPU"
        return Plan(["update", "off"], reason)
    if not algorithm:
        reason = "the network has convolutions, faster in a TensorFlow graph on a CPU"
        return Plan(["parts", "off"], reason)
    if not source:
        reason = "the environments are stepped by Python calls from the graph"
        return Plan(["update", "off"], reason)
    return Plan(["full", "update", "off"], "environments and update are one program")


def is_whole(env: Env, algorithm: Algorithm, compile: str, device: str) -> bool:
    """Return whether XLA compiles acting and environment steps as one program."""
    if not getattr(env, "compilable", False):
        return False
    return plan(True, algorithm.compilable, compile, device).modes[0] == "full"


class Compiled:
    """A program compiled in the first of several modes that XLA does not refuse.

    XLA refuses a mode before any weight changes. A trajectory already collected for
    this update is dropped.

    Args:
      make: creates the program that is compiled in one of the modes.
      plan: the modes in the order to try.
      setting: name of the setting in the warning when XLA refuses a mode.

    Attributes:
      mode: part that XLA compiles, see ``Plan``; final after the first call.
      reason: reason for that mode.
    """

    def __init__(
        self,
        make: Callable[[str], Program],
        plan: Plan,
        setting: str = "--compile",
    ):
        self._make = make
        self._setting = setting
        self.mode, *self._others = plan.modes
        self.reason = plan.reason
        self._program = make(self.mode)
        self._settled = False

    def traces(self) -> int:
        """Return how often the program was traced; more than once is a bug."""
        return self._program.experimental_get_tracing_count()

    def origin(self) -> dict[str, str]:
        """Return whether the program was traced or loaded, for the run's log."""
        origin = getattr(self._program, "origin", None)
        return {"program": "traced"} if origin is None else origin()

    def __call__(self, seed: tf.Tensor) -> Metrics:
        while not self._settled:
            try:
                metrics = self._run(seed)
            except (
                tf.errors.InvalidArgumentError,
                tf.errors.UnimplementedError,
            ) as error:
                operation = _refused_operation(str(error))
                if operation is None:
                    raise
                self._fall_back(operation)
                continue
            self._settled = True
            return metrics
        return self._run(seed)

    def _run(self, seed: tf.Tensor) -> Metrics:
        with tf.device("/CPU:0"):  # default for operations without a device
            return self._program(seed)

    def _fall_back(self, operation: str) -> None:
        if not self._others:
            raise UserError(
                f"{self._setting}={self.mode}: XLA cannot compile {operation}; use "
                "--compile=auto or off, or another operation in the network"
            )
        mode = self._others.pop(0)
        _LOG.warning(
            "XLA cannot compile %s: %s=%s instead of %s",
            operation,
            self._setting,
            mode,
            self.mode,
        )
        self.mode, self._program = mode, self._make(mode)
        self.reason = f"XLA cannot compile {operation}"


def _refused_operation(message: str) -> str | None:
    """Return the operation that XLA has no kernel for; None for other errors."""
    found = re.search(r"No registered '(\w+)' OpKernel for XLA", message)
    found = found or re.search(r"unsupported operations.*?: (\w+)", message, re.S)
    return found[1] if found else None


def place(device: str) -> str:
    """Return TensorFlow's device name; a compiled call runs in its device scope."""
    return "/GPU:0" if device == "gpu" else "/CPU:0"


def _update(algorithm: Algorithm, mode: str):
    """Return the update as a program that other programs can call."""
    if hasattr(algorithm, "compile_parts"):
        algorithm.compile_parts(mode == "parts")

    def update(trajectory, seed):
        return algorithm.update(trajectory, seed)

    compiled = mode in ("full", "update")
    body = single_call(update) if compiled else update
    return tf.function(body, jit_compile=compiled, autograph=False)


def _join(
    source: Source, update: Any, device: str, mode: str, info: Sequence[str]
) -> Program:
    """Return one iteration; ``mode`` is the part that XLA compiles, see ``Plan``."""

    def iterate(seed):
        with tf.device("/CPU:0"):
            trajectory = source(seed)
        with tf.device(place(device)):
            learn = update.get_concrete_function(
                *tf.nest.map_structure(_spec, (trajectory, seed))
            )
            results = learn.structured_outputs
            ok = source.ok()
            learned = tf.cond(
                ok, lambda: update(trajectory, seed), lambda: _zeros(results)
            )
        measured = collected(source, trajectory, info)
        return learned | measured

    compiled = mode == "full"
    body = single_call(iterate) if compiled else iterate
    return function(body, envs=[source.env], jit_compile=compiled, autograph=False)


def _variables(source: Source, algorithm: Algorithm) -> dict[str, Any]:
    """Return the variables that an iteration may read or write, by name."""
    own = {k: v for k, v in vars(source).items() if isinstance(v, tf.Variable)}
    named = [("algorithm", algorithm.named_variables()), ("source", own)]
    named.append(("source", source.named_variables()))
    return {f"{owner}/{k}": v for owner, each in named for k, v in each.items()}


def _zeros(results: Metrics) -> Metrics:
    """Return zeros like an update's metrics, one tensor per shape and dtype."""
    kinds = {name: (tuple(x.shape), x.dtype) for name, x in results.items()}
    # In the order of the results, so that names are equal in every process.
    zeros = {kind: constants.zeros(*kind) for kind in dict.fromkeys(kinds.values())}
    return {name: zeros[kind] for name, kind in kinds.items()}


def _spec(x: tf.Tensor) -> tf.TensorSpec:
    return tf.TensorSpec(x.shape, x.dtype)
