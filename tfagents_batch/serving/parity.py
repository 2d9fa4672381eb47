"""Comparison of an export with the policy that it was made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.nn.encoder import ACTION_MASK
from tfagents_batch.serving.decision_function import DecisionFunction
from tfagents_batch.serving.description import ABSOLUTE, RELATIVE, Array
from tfagents_batch.serving.functions import Arrays, Run

ROWS = 1000
CHUNK = 256  # rows of a call
# Two actions are equally good if their scores differ by less than rounding does.
_TIE, _MOST_TIES = 1e-6, 0.01  # and the largest share of such rows
_LARGE = 1e9  # of a number without bounds
_PROBABILITIES = "propensity", "probabilities"
_OF_ACTION = "action", *_PROBABILITIES  # which a tie changes


class Parity(NamedTuple):
    """Result of a comparison.

    Attributes:
      rows: number of inputs.
      differences: largest absolute difference of each output.
      problems: what is wrong, a line each; empty if nothing is.
    """

    rows: int
    differences: dict[str, float]
    problems: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``parity.json``."""
        return {
            "rows": self.rows,
            "passed": not self.problems,
            "tolerance": {"absolute": ABSOLUTE, "relative": RELATIVE},
            "differences": self.differences,
            "problems": list(self.problems),
        }


def inputs(function: DecisionFunction, observation: Any) -> Arrays:
    """Return random inputs of a function and extreme ones, in a random order."""
    generator = np.random.default_rng(0)
    leaves = spaces.leaves(observation)
    edges = [_edges(leaf) for leaf in leaves]
    size = ROWS + max(map(len, edges))
    order = generator.permutation(size)
    arrays = {}
    for x in function.inputs:
        if x.role == "observation":
            leaf, extreme = leaves[len(arrays)], edges[len(arrays)]
            random = _random(leaf, size - len(extreme), generator)
            rows = np.concatenate([extreme, random]).astype(x.dtype)
        else:
            rows = _other(x, size, generator)
        arrays[x.name] = rows[order]
    return arrays


def compare(
    function: DecisionFunction, run: Run, feeds: Arrays
) -> tuple[Parity, Arrays]:
    """Return the comparison of a loaded export with its policy, and its outputs."""
    expected = _in_chunks(_reference(function), feeds)
    actual = _in_chunks(run, feeds)
    size = len(next(iter(feeds.values())))
    differences: dict[str, float] = {}
    problems = []
    ties = np.zeros(size, bool)
    numbers = [x.name for x in function.actions if expected[x.name].dtype.kind == "i"]
    if numbers:
        ties = _ties(function, feeds, numbers, expected, actual)
        if ties.mean() > _MOST_TIES:
            problems.append(f"action differs in {ties.sum()} rows, though by little")
    for name, right in expected.items():
        wrong = actual.get(name)
        if wrong is None or wrong.shape != right.shape or wrong.dtype != right.dtype:
            problems.append(f"{name} is {_kind(wrong)}; expected {_kind(right)}")
            continue
        kept = slice(None) if name not in (*_OF_ACTION, *numbers) else ~ties
        tied = wrong[ties]
        possible = (tied >= 0) & (tied <= 1 + ABSOLUTE)  # False for NaN
        if name in _PROBABILITIES and not possible.all():
            problems.append(f"{name} is not between 0 and 1 in all rows")
        difference, problem = _differ(name, wrong[kept], right[kept])
        differences[name] = difference
        problems += problem
    return Parity(size, differences, tuple(problems)), expected


def _differ(
    name: str, actual: np.ndarray, right: np.ndarray
) -> tuple[float, list[str]]:
    """Return the largest difference, and a line about it if it is too large."""
    actual, right = (x.reshape(len(x), -1).astype(np.float64) for x in (actual, right))
    if not right.size:
        return 0.0, []
    if np.isnan(right).any():
        row = int(np.isnan(right).any(-1).argmax())
        return float("nan"), [f"{name} of the policy is NaN in row {row}"]
    with np.errstate(invalid="ignore"):  # the difference of infinities
        difference = np.where(actual == right, 0.0, np.abs(actual - right))
    size = np.where(np.isfinite(right), np.abs(right), 0.0).max(-1, keepdims=True)
    wrong = ~(difference <= np.maximum(ABSOLUTE, RELATIVE * size))  # also for NaN
    largest = float(np.nan_to_num(difference, nan=np.inf).max())
    if not wrong.any():
        return largest, []
    row = int(wrong.any(-1).argmax())
    return largest, [
        f"{name} differs in {int(wrong.any(-1).sum())} of {len(right)} rows, by up to "
        f"{largest:.3g}; row {row} is {actual[row].tolist()}, expected "
        f"{right[row].tolist()}"
    ]


def _ties(
    function: DecisionFunction,
    feeds: Arrays,
    names: Sequence[str],
    right: Arrays,
    actual: Arrays,
) -> np.ndarray:
    """Return where two different actions are equally good, bool ``[N]``.

    ``names`` are the outputs that are whole numbers of an action.
    """
    size = len(right[names[0]])
    if any(np.shape(actual.get(x)) != right[x].shape for x in names):
        return np.zeros(size, bool)
    function_score = tf.function(function.score, reduce_retracing=True, autograph=False)

    def score(rows):
        found = {x: rows[f"chosen/{x}"] for x in names}
        return {"score": function_score({k: rows[k] for k in feeds}, found).numpy()}

    one, other = (
        _in_chunks(score, {**feeds, **{f"chosen/{x}": outputs[x] for x in names}})
        for outputs in (right, actual)
    )
    different = np.zeros(size, bool)
    for x in names:
        different |= (right[x] != actual[x]).reshape(size, -1).any(-1)
    distance = np.abs(one["score"] - other["score"])
    return different & (distance < _TIE + RELATIVE * np.abs(one["score"]))


def _reference(function: DecisionFunction) -> Run:
    specs = [function.specs()]
    decide = tf.function(function.decide, input_signature=specs, autograph=False)

    def run(rows):
        outputs = decide({name: tf.constant(x) for name, x in rows.items()})
        return {name: x.numpy() for name, x in outputs.items()}

    return run


def _in_chunks(run: Callable[[Arrays], Arrays], feeds: Arrays) -> dict[str, np.ndarray]:
    size = len(next(iter(feeds.values())))
    parts = [
        run({name: x[first : first + CHUNK] for name, x in feeds.items()})
        for first in range(0, size, CHUNK)
    ]
    return {name: np.concatenate([x[name] for x in parts]) for name in parts[0]}


def _kind(x: np.ndarray | None) -> str:
    return "missing" if x is None else f"{x.dtype} {list(x.shape)}"


def _random(leaf: spaces.Leaf, size: int, generator: np.random.Generator) -> np.ndarray:
    """Return random values ``[size, ...]`` of a part of an observation."""
    space, shape = leaf.space, (size, *leaf.shape)
    if leaf.path == (ACTION_MASK,):
        return generator.integers(0, 2, shape)
    if isinstance(space, gs.Discrete):
        return generator.integers(space.start, space.start + space.n, shape)
    if isinstance(space, gs.MultiDiscrete):
        start = np.asarray(space.start)
        return start + generator.integers(0, np.broadcast_to(space.nvec, shape))
    if isinstance(space, gs.MultiBinary):
        return generator.integers(0, 2, shape)
    if np.issubdtype(space.dtype, np.floating):
        scale = np.exp(generator.normal(0, 2, (size, *[1] * len(leaf.shape))))
        return np.clip(generator.normal(size=shape) * scale, space.low, space.high)
    low, high = (np.int64(x) for x in _integers(leaf))
    return generator.integers(low, high, shape, endpoint=True)


def _edges(leaf: spaces.Leaf) -> np.ndarray:
    """Return extreme values of a part of an observation, ``[n, ...]``."""
    space = leaf.space
    if leaf.path == (ACTION_MASK,):  # one possible action each, all of them, and none
        size = int(np.prod(leaf.shape))
        rows = [*np.eye(size), np.ones(size), np.zeros(size)]
        return np.reshape(rows, (-1, *leaf.shape))
    if isinstance(space, gs.Discrete):
        return np.arange(space.start, space.start + min(space.n, 100))
    if isinstance(space, gs.MultiDiscrete):
        start = np.asarray(space.start)
        return np.stack([start, start + np.asarray(space.nvec) - 1])
    if isinstance(space, gs.MultiBinary):
        return np.stack([np.zeros(leaf.shape), np.ones(leaf.shape)])
    if np.issubdtype(space.dtype, np.floating):
        bounds = space.low, space.high
        low, high = (np.clip(np.float64(x), -_LARGE, _LARGE) for x in bounds)
    else:
        low, high = (np.float64(x) for x in _integers(leaf))
    middle = np.clip(0.0, low, high)
    even = np.arange(low.size).reshape(low.shape) % 2 == 0
    mixed = np.where(even, low, high), np.where(even, high, low)
    return np.stack([low, high, middle, *mixed])


def _integers(leaf: spaces.Leaf) -> list[np.ndarray]:
    """Return the bounds of a Box of integers or flags that the model's input has."""
    dtype = np.dtype(leaf.dtype)
    if dtype.kind == "b":
        least, most = 0, 1
    else:
        least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    bounds = leaf.space.low, leaf.space.high
    return [np.clip(np.asarray(x, object), least, most) for x in bounds]


def _other(x: Array, size: int, generator: np.random.Generator) -> np.ndarray:
    """Return random values of an input that is no part of an observation."""
    shape = (size, *x.shape)
    if x.role == "episode_start":
        return generator.random(shape) < 0.5
    if x.distribution == "uniform":
        return generator.random(shape, np.float32)
    return generator.normal(size=shape).astype(x.dtype)
