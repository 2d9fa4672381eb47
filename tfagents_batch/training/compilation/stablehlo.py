"""A compiled program as text: StableHLO, and the variables that it uses.

Even if the compiled program is in the cache, a third of the start time is tracing it in
Python and lowering it operation by operation. A program stored as text needs neither.
"""

from __future__ import annotations

import contextlib
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch.envs.graph.function import function
from tfagents_batch.envs.native import op
from tfagents_batch.metrics import RULES, Result

# TensorFlow ends a function's name in a number that counts everything that the process
# has created so far. The name is part of the key of a compiled program in its cache. A
# process that has also traced another program, or written a checkpoint, would count
# further and miss the cache. So each kind of program starts at a fixed number, far
# above those used before; counting this far takes about 10 ms.
PROGRAM = 100_000
EVALUATION = 200_000
SAMPLED = 300_000  # evaluation with sampled actions
# TensorFlow's lowering leaves parts of another dialect, which XLA cannot read back. A
# copy can be replaced by a reshape to the same shape; the attributes are only hints.
_REWRITTEN = (
    (re.compile(r"^#loc.*\n", re.M), ""),
    (re.compile(r' loc\((?:#loc\d*|"[^"]*"|unknown|fused\[[^\]]*\])\)'), ""),
    (
        re.compile(r"mhlo\.copy (%\S+) : (.*)$", re.M),
        r"stablehlo.reshape \1 : (\2) -> \2",
    ),
    (re.compile(r" \{mhlo\.frontend_attributes = \{[^}]*\}\}"), ""),
    (re.compile(r"^module @\S+ attributes \{.*\} \{$", re.M), "module @program {"),
)
_MAIN = re.compile(r"^  func\.func @main\((.*?)\) -> (.*) \{$", re.M)
_ALIAS = re.compile(
    r"parameter_index = array<i64>, parameter_number = (\d+) : i64\}, "
    r"output_index = array<i64: (\d+)>"
)


class NotExportable(Exception):
    """A program that cannot be stored as text; the message is the reason."""


class Exported(NamedTuple):
    """An exported program."""

    # StableHLO; ``main`` takes the arguments and the values of the variables, and
    # returns the outputs and new values
    module: str
    variables: list[str]  # names of the variables, in the order of the parameters
    # Pairs ``(result, variable)`` of indices: the variable's new value
    assigned: list[tuple[int, int]]
    outputs: Any  # nest of shapes and dtypes of the outputs, see ``_to_json``

    def to_bytes(self) -> bytes:
        """Return compressed JSON."""
        return zlib.compress(json.dumps(self).encode(), 1)

    @classmethod
    def from_bytes(cls, data: bytes) -> Exported:
        """Read the output of ``to_bytes``; anything else is a NotExportable."""
        try:
            return cls(*json.loads(zlib.decompress(data)))
        except (zlib.error, TypeError, ValueError) as error:
            raise NotExportable(f"not a program: {error}") from None


def export(
    program: Any, arguments: Sequence[tf.Tensor], variables: Mapping[str, Any]
) -> Exported:
    """Export a compiled ``tf.function`` that returns nested tensors as text.

    Of the arguments only shapes and dtypes matter. The variables are all that it may
    read or write, by name.

    Raises:
      NotExportable: if it uses anything else, or XLA refuses it.
    """
    specs = [tf.TensorSpec.from_tensor(x) for x in arguments]
    traced = program.get_concrete_function(*specs)
    structure = traced.structured_outputs
    results = tf.nest.flatten(structure)
    names = {id(_tf_variable(x).handle): name for name, x in variables.items()}
    used = [names.get(id(x)) for x in traced.captured_inputs]
    if not all(x.shape.is_fully_defined() for x in results):
        raise NotExportable("the shape of a metric is not known")
    if None in used:
        raise NotExportable("it uses more than the variables that have names")
    try:
        text = program.experimental_get_compiler_ir(*specs)(
            stage="stablehlo", platform_name="CPU"
        )
    except (tf.errors.OpError, ValueError) as error:
        raise NotExportable(str(error)) from None
    assigned = [
        (int(result), int(parameter) - len(specs))
        for parameter, result in _ALIAS.findall(text)
    ]
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    main = _MAIN.search(text)
    expected = range(len(results), len(results) + len(assigned))
    known = (
        main is not None
        and main[1].count("%arg") == len(used) + len(specs)
        and main[2].count("tensor<") == expected.stop
        and sorted(result for result, _ in assigned) == [*expected]
    )
    if not known or "mhlo." in text:
        raise NotExportable("its text is not as expected")
    return Exported(text, used, assigned, _to_json(structure))


def program(
    exported: Exported, variables: Mapping[str, Any], envs: Sequence[Any]
) -> Any:
    """Return an exported program as a compiled function that returns metrics.

    Its variables have the names that they had at its export. It steps the environments,
    see ``envs.graph.function``.

    Raises:
      NotExportable: if a variable of the program is missing.
    """
    if not set(exported.variables) <= variables.keys():
        raise NotExportable("a variable of the program is missing")
    used = [_tf_variable(variables[name]) for name in exported.variables]
    outputs = _from_json(exported.outputs)
    specs = tf.nest.flatten(outputs)
    assigned = sorted(exported.assigned)
    begin_at(PROGRAM)
    specs += [tf.TensorSpec(used[i].shape, used[i].dtype) for _, i in assigned]

    @function(envs=envs, jit_compile=True, autograph=False)
    def stored(*arguments: tf.Tensor) -> Any:
        values = [variable.read_value() for variable in used]
        results = op.call(exported.module, [*arguments, *values], specs)
        for result, variable in assigned:
            used[variable].assign(results[result], read_value=False)
        returned = results[: len(results) - len(assigned)]
        return tf.nest.pack_sequence_as(outputs, returned)

    return stored


_TUPLES = {kind.__name__: kind for kind in (Result, *RULES)}


def _to_json(structure: Any) -> Any:
    """Return a nest of outputs as JSON: a tensor is its shape and dtype."""
    if isinstance(structure, tf.Tensor):
        return [structure.shape.as_list(), structure.dtype.name]
    if isinstance(structure, dict):
        return {"dict": {name: _to_json(x) for name, x in structure.items()}}
    return {type(structure).__name__: [_to_json(x) for x in structure]}


def _from_json(outputs: Any) -> Any:
    """Return a nest of ``tf.TensorSpec``; the inverse of ``_to_json``."""
    if isinstance(outputs, list):
        return tf.TensorSpec(*outputs)
    ((kind, parts),) = outputs.items()
    if kind == "dict":
        return {name: _from_json(x) for name, x in parts.items()}
    return _TUPLES[kind](*(_from_json(x) for x in parts))


def cannot_read(error: tf.errors.OpError) -> bool:
    """Check if XLA could not read a program's text; then no part of it has run."""
    text = str(error)
    return "XlaCallModule" in text and "tf2xla conversion failed" in text


def _tf_variable(variable: Any) -> tf.Variable:
    """Return the ``tf.Variable`` of a TensorFlow or Keras variable."""
    return variable if isinstance(variable, tf.Variable) else variable.value


def name_evaluation(sampled: bool) -> None:
    """Set the function names of the evaluation that is traced next."""
    begin_at(SAMPLED if sampled else EVALUATION)


def begin_at(number: int) -> None:
    """Make the next names end in one of the numbers above, or a greater one.

    It has no effect if the process is already past the number.
    """
    # If this fails, programs are only compiled again.
    with contextlib.suppress(ImportError, AttributeError):
        from tensorflow.python.framework import ops

        while ops.uid() < number:
            pass
