"""Program of a run: rounds of collecting and updating, compiled where it can be."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.devices.placement import CPU, HOST, Placement
from tfagents_batch.envs.graph.function import function
from tfagents_batch.errors import UserError
from tfagents_batch.experience import HostSource, Source
from tfagents_batch.graph import arrays
from tfagents_batch.graph.function import single_call
from tfagents_batch.interfaces import Algorithm, Env
from tfagents_batch.metrics import Result
from tfagents_batch.programs import rounds, two_devices
from tfagents_batch.programs.host import HostProgram
from tfagents_batch.programs.overlap import Ahead
from tfagents_batch.programs.rounds import compile_error, refused
from tfagents_batch.tracing import anew

Call = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Result]  # see ``rounds.call``
Kind = Literal["synchronous", "overlapped", "host"]
Save = Callable[[Call, dict[str, Any], Sequence[Any]], Call]

_LOG = logging.getLogger("tfagents_batch")


@runtime_checkable
class Program(Protocol):
    """The training of a run as calls of compiled programs."""

    rounds: int  # of the newest call
    mode: str  # the part that XLA compiles
    reason: str  # for the mode

    @property
    def step(self) -> int:
        """Progress in the unit of the source, the only counter of a run."""
        ...

    @property
    def failed(self) -> bool:
        """Whether a thread beside the calls has failed; the next call raises why."""
        ...

    def __call__(self, until: int, rounds: int) -> dict[str, Any]:
        """Train.

        A round collects once and then makes the updates that are due.

        Args:
          until: the call ends with the first round in which ``step`` reaches it; a
            call has at least one round.
          rounds: largest number of rounds; a host program may end with those of a
            batch.

        Returns:
          Metrics of all rounds of the call, merged by their rules and as NumPy values;
          scalars have become ``metrics.Mean``.
        """
        ...

    def traces(self) -> int:
        """Return how often a program was traced; more than once is a fault."""
        ...

    def close(self) -> None:
        """End what it has started; it may be called twice."""
        ...


class Plan(NamedTuple):
    """Choice of the parts that XLA compiles, in the order to try.

    They are "full" (one program), "split" (one on each device), "update", "parts" (of
    the update) or "off". The first mode that XLA does not refuse is used.
    """

    modes: list[str]
    reason: str  # for the first mode


def build(
    source: Source | HostSource,
    algorithm: Algorithm,
    compile: str = "auto",
    placement: Placement = HOST,
    *,
    seed: int = 0,
    step: int = 0,
    kind: Kind = "synchronous",
    save: Save | None = None,
) -> Program:
    """Build the program that joins a source and an algorithm.

    Args:
      source, algorithm: as in ``interfaces``; a ``HostSource`` for the kind "host".
      compile: "full", "update", "off" or "auto": the part that XLA compiles. If XLA
        refuses an operation, "auto" continues uncompiled and logs a warning; with a
        host source, the first call raises ``UserError``.
      placement: devices on which the variables of source and algorithm lie.
      seed: seed of the run.
      step: progress already made.
      kind: "synchronous" collects and updates in turn, "overlapped" collects during an
        update, see ``overlap``, and "host" fetches by Python, see ``host``.
      save: saves a fully compiled program for later starts, see
        ``compilation.Saver``; None does not save it.

    Returns:
      The program. If what was collected is void, weights and statistics do not change.
      Failed environments raise ``EnvError`` after a program has returned.

    Raises:
      UserError: if the compile option is not available.
    """
    if compile == "full" and not source.compilable:
        raise UserError(
            "--compile=full needs environments that run under XLA; these are "
            "stepped in this process, or without a C++ compiler; use --compile=update"
        )
    chosen = plan(source.compilable, algorithm.compilable, compile, placement)
    compile_parts = getattr(algorithm.learner, "compile_parts", lambda on: None)
    if kind == "host":
        assert isinstance(source, HostSource)
        compile_parts(chosen.modes[0] != "off")
        mode = chosen.modes[0], chosen.reason
        return HostProgram(source, algorithm, *mode, seed, step, placement)
    assert isinstance(source, Source)
    with placement.collecting():
        start = arrays.argument(step, tf.int64)
        count = tf.Variable(start, trainable=False)
    checked = *source.envs, source  # their ``check`` raises what went wrong in a call

    def make(mode: str) -> Call:
        compile_parts(mode != "off")
        compiled = mode == "full"
        update = rounds.make_update(algorithm, compiled or mode == "update")
        parts = source, algorithm, update, count
        if kind == "overlapped":
            return Ahead(*parts, placement, compiled or mode == "split")
        if placement.whole:
            call = rounds.call(*parts)
        else:
            xla = mode == "split", mode in ("split", "update")
            call = two_devices.call(*parts, placement, xla)
        body = single_call(call) if compiled else call
        options = {"jit_compile": compiled, "autograph": False}
        joined = function(anew(body), envs=checked, **options)
        if save is None or not compiled or placement.update != CPU:
            return joined
        return save(joined, _variables(source, algorithm, count), checked)

    return Training(make, chosen, seed, count, placement)


class Training:
    """The training of a run; a ``Program``, which counts ``step`` further."""

    failed = False  # nothing runs beside its calls

    def __init__(
        self,
        make: Callable[[str], Call],
        plan: Plan,
        seed: int,
        step: tf.Variable,
        placement: Placement,
    ):
        self._compiled = Compiled(make, plan, placement)
        self._seed, self._step = tf.constant(seed, tf.int32), step
        self.rounds, self.mode, self.reason = 0, plan.modes[0], plan.reason
        self.traces = self._compiled.traces

    @property
    def step(self) -> int:
        return int(self._step.numpy())

    def __call__(self, until: int, rounds: int) -> dict[str, Any]:
        limits = arrays.argument(until, tf.int64), arrays.argument(rounds)
        try:
            metrics, self.rounds = self._compiled(self._seed, *limits).to_host()
        finally:
            self.mode, self.reason = self._compiled.mode, self._compiled.reason
        return metrics

    def close(self) -> None:
        """Do nothing: it has started nothing that outlives a call."""


def plan(
    source: bool,
    algorithm: bool,
    compile: str = "auto",
    placement: Placement = HOST,
) -> Plan:
    """Choose the parts that XLA compiles.

    Args:
      source, algorithm: whether each is ``compilable``.
      compile: the setting; "auto" leaves the choice to this function.
      placement: devices; one program cannot run on two of them.
    """
    if compile != "auto":
        return Plan([compile], "set by the user")
    if not placement.whole:
        reason = "environments are stepped on the CPU, the update runs on the GPU"
        # A CPU runs convolutions faster in a graph of TensorFlow than under XLA.
        first = ["split"] if source and algorithm else []
        return Plan([*first, "update", "off"], reason)
    if not algorithm and placement.update == CPU:
        reason = "the network has convolutions, faster in a TensorFlow graph on a CPU"
        return Plan(["parts", "off"], reason)
    if not source:
        reason = "Python is called from the graph, for environments or rewards of goals"
        return Plan(["update", "off"], reason)
    return Plan(["full", "update", "off"], "environments and update are one program")


def is_whole(
    env: Env, algorithm: Algorithm, compile: str, placement: Placement
) -> bool:
    """Return whether XLA compiles acting and environment steps as one program."""
    if not getattr(env, "compilable", False):
        return False
    return plan(True, algorithm.compilable, compile, placement).modes[0] == "full"


class Compiled:
    """A program compiled in the first of several modes that XLA does not refuse.

    XLA refuses a mode before any weight changes. A trajectory already collected for
    this update is dropped.

    Args:
      make: creates the program that is compiled in one of the modes.
      plan: the modes in the order to try.
      placement: devices; what is on none of them runs where experience is collected.
      setting: name of the setting in the warning when XLA refuses a mode.

    Attributes:
      mode, reason: part that XLA compiles, see ``Plan``; final after the first call.
    """

    def __init__(
        self,
        make: Callable[[str], Any],
        plan: Plan,
        placement: Placement = HOST,
        setting: str = "--compile",
    ):
        self._make, self._placement, self._setting = make, placement, setting
        (self.mode, *self._others), self.reason = plan
        self._program = make(self.mode)
        self._settled = False

    def traces(self) -> int:
        """Return how often the program was traced; more than once is a bug."""
        return self._program.experimental_get_tracing_count()

    def __call__(self, *arguments: tf.Tensor) -> Any:
        while True:
            try:
                with self._placement.collecting():
                    result = self._program(*arguments)
            except tf.errors.OpError as error:
                if self._settled:
                    raise
                self._fall_back(refused(error))
                continue
            self._settled = True
            return result

    def _fall_back(self, operation: str) -> None:
        if not self._others:
            raise compile_error(
                self._setting, self.mode, operation, "--compile=auto or off"
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


def _variables(
    source: Source, algorithm: Algorithm, step: tf.Variable
) -> dict[str, Any]:
    """Return the variables that a call may read or write, by name.

    Those that no checkpoint has, such as numbers of the settings, are named by their
    position.
    """
    variables = {
        **algorithm.learner.named_variables(),
        **nest.prefixed("source", source.named_variables()),
        "policy/version": algorithm.policy.version,
        "step": step,
    }
    named = {id(variable) for variable in variables.values()}
    for part, module in (("source", source), ("algorithm", algorithm)):
        others = (x for x in module.variables if id(x) not in named)
        variables |= {f"{part}/other/{i}": x for i, x in enumerate(others)}
    return variables
