"""Rules for observations.

Workers and batches raise the first defect, and ``check_env`` collects all of them.
Environments written in TensorFlow are checked for nesting and shape while they are
traced. Only the narrowing of ``spaces.leaves`` (float64 to float32, int64 to int32)
converts values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs.shared.failures import Defect
from tfagents_batch.envs.shared.validation import FIX_FINITE, kind_of, refuse
from tfagents_batch.space_rules import BOUNDS, FINITE, FIT, KINDS, SHAPE, Flaw, flaws

MASK = "action_mask"
FIX_SPACE = "correct the environment or its observation_space"

# Function of a space's leaf, its value and name; returns the defects.
LeafRule = Callable[[spaces.Leaf, Any, str], Iterable[Defect]]


def flat(space: gymnasium.Space, value: Any) -> list[Any]:
    """Return the leaves of an observation or a batch, ordered like ``spaces.leaves``.

    Raises:
      Defect: if it is not nested like its space.
    """
    try:
        return spaces.flatten(space, value)
    except (KeyError, IndexError, TypeError):
        refuse(observation_defects(space, value, no_defects))
        raise


def no_defects(leaf: spaces.Leaf, value: Any, name: str) -> Iterable[Defect]:
    """Return no defects, so that only the nesting is checked."""
    return ()


def observation_defects(
    space: gymnasium.Space, value: Any, rule: LeafRule, name: str = "observation"
) -> Iterator[Defect]:
    """Yield all defects of an observation of a space that ``spaces.leaves`` supports.

    ``rule`` looks at its leaves, such as ``leaf_defects``.
    """
    got = kind_of(value)
    if isinstance(space, gs.Dict):
        expected = sorted(map(str, space.spaces))
        if not isinstance(value, Mapping):
            text = f"{name} is {got}; expected a dict of {expected}: return one"
            yield Defect(text, "type", name)
            return
        missing = sorted(str(key) for key in space.spaces if key not in value)
        if missing:
            text = (
                f"{name} lacks keys {missing}; its space has {expected}: return all "
                "of them in every reset() and step()"
            )
            yield Defect(text, "missing keys", name)
        extra = sorted(str(key) for key in value if key not in space.spaces)
        if extra:
            text = (
                f"{name} has keys {extra}, which its space does not have: leave them "
                "out, or add them to observation_space"
            )
            yield Defect(text, "extra keys", name)
        keys = [key for key in sorted(space.spaces) if key in value]
        children: list[tuple[Any, gymnasium.Space]]
        children = [(key, space.spaces[key]) for key in keys]
    elif isinstance(space, gs.Tuple):
        count = len(space.spaces)
        if not isinstance(value, (tuple, list)):
            text = f"{name} is {got}; expected a tuple of {count}: return one"
            yield Defect(text, "type", name)
            return
        if len(value) != count:
            text = f"{name} has {len(value)} entries; its space has {count}"
            yield Defect(f"{text}: {FIX_SPACE}", "length", name)
        children = list(enumerate(space.spaces))[: len(value)]
    else:
        (leaf,) = spaces.leaves(space)
        yield from rule(leaf, value, name)
        return
    for key, child in children:
        yield from observation_defects(child, value[key], rule, f"{name}[{key!r}]")


def leaf_defects(
    leaf: spaces.Leaf,
    value: Any,
    name: str,
    batch: tuple[int, ...] = (),
    kinds: Sequence[str] = KINDS,
) -> Iterator[Defect]:
    """Yield all defects of one leaf, or of a batch of it with more axes in front.

    Their kinds are "type", "shape", "dtype", and those of ``space_rules`` to apply. In
    a batch they have the row of the first wrong number.
    """
    form = list(form_defects(leaf, value, name, batch))
    yield from form
    if any(defect.kind == "type" for defect in form):
        return
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        return
    narrowed = array.dtype.kind in "iu" and np.dtype(leaf.dtype) != leaf.space.dtype
    fits = not narrowed or not isinstance(leaf.space, gs.Box)  # else: wrong bounds
    skipped = (SHAPE, FIT) if fits else (SHAPE,)  # ``form_defects`` looks at the shape
    kinds = [kind for kind in kinds if kind not in skipped]
    limits = bounds(leaf.space) if BOUNDS in kinds else None
    for flaw in flaws(array, leaf, limits, axes=len(batch), kinds=kinds):
        row = flaw.place[0] if batch else None
        yield Defect(_text(flaw, leaf, array, name, row), flaw.kind, name, row)


def form_defects(
    leaf: spaces.Leaf, value: Any, name: str, batch: tuple[int, ...] = ()
) -> Iterator[Defect]:
    """Yield defects of type, shape and dtype; ``batch`` are axes before the leaf's."""
    wide = np.dtype(leaf.space.dtype)
    is_array = isinstance(value, (np.ndarray, np.generic))
    whole = is_array and value.dtype.kind in "iu"
    index = isinstance(leaf.space, gs.Discrete)  # any integer is accepted
    if index and not batch:
        if not isinstance(value, int) and not (whole and value.shape == ()):
            text = (
                f"{name} is {kind_of(value)}; expected an int: return int(observation)"
            )
            yield Defect(text, "type", name)
        return
    if not is_array:
        text = (
            f"{name} is {kind_of(value)}; expected an array, {wide} "
            f"{list(leaf.shape)}: return np.asarray(observation, np.{wide})"
        )
        yield Defect(text, "type", name)
        return
    if np.ma.is_masked(value):
        text = (
            f"{name} is a masked array with masked values; expected a value for every "
            f"entry: return {name}.filled(0), or another fill value"
        )
        yield Defect(text, "type", name)
        return
    yield from shape_defects(leaf, value.shape, name, batch)
    if value.dtype not in (wide, np.dtype(leaf.dtype)) and not (index and whole):
        text = (
            f"{name} has dtype {value.dtype}; its space says {wide}: correct the "
            "environment, or wrap it in gymnasium.wrappers.DtypeObservation(env, "
            f"np.{wide})"
        )
        yield Defect(text, "dtype", name)


def shape_defects(
    leaf: spaces.Leaf, shape: Sequence[int], name: str, batch: tuple[int, ...] = ()
) -> Iterator[Defect]:
    """Yield the defect of a wrong shape; see ``form_defects``."""
    expected = [*batch, *leaf.shape]
    if list(shape) != expected:
        rows = ", one row per environment" if batch else ""
        text = f"{name} has shape {list(shape)}; its space says {expected}{rows}"
        yield Defect(f"{text}: {FIX_SPACE}", "shape", name)


def _text(
    flaw: Flaw, leaf: spaces.Leaf, value: np.ndarray, name: str, row: int | None
) -> str:
    """Return what is wrong with a leaf, and what to do."""
    space, dtype = leaf.space, leaf.dtype
    if flaw.kind == FINITE:
        text = f"{name} has NaN or infinite values; expected finite {dtype}"
        return f"{text}: {FIX_FINITE}"
    if flaw.kind == FIT:
        return (
            f"{name} has values that do not fit {dtype}, its dtype here: scale them, "
            "or observe them as float32"
        )
    low, high = bounds(space)
    if isinstance(space, gs.Box):
        place = flaw.place if row is None else flaw.place[1:]
        where = f" at {list(place)}" if place else ""
        limits = f"expected {low[place]} to {high[place]}"
        text = f"{name} is {value[flaw.place]}{where}, outside its Box; {limits}"
    else:
        value = value if row is None else value[row]
        text = f"{name} is {short(value.tolist())}; not in {space}"
        if isinstance(space, gs.Discrete):
            text = f"{name} is {value}; {space} has {low} to {high}"
    return f"{text}: {FIX_SPACE}"


def bounds(space: gymnasium.Space) -> tuple[Any, Any]:
    """Return the lowest and the highest value of a leaf, both inclusive."""
    if isinstance(space, gs.Box):
        return space.low, space.high
    if isinstance(space, gs.MultiBinary):
        return 0, 1
    if isinstance(space, gs.MultiDiscrete):
        low = np.asarray(space.start)
        return low, low + np.asarray(space.nvec) - 1
    return int(space.start), int(space.start) + int(space.n) - 1


def short(value: Any) -> str:
    """Return a value as text of limited length."""
    text = str(value)
    return text if len(text) <= 500 else f"{text[:500]}..."


def mask_rule(
    observation: gymnasium.Space, action: gymnasium.Space
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return the rule for ``observation["action_mask"]``; None if there is no mask.

    It maps masks ``[..., entries]`` to bool ``[...]``, where no action is possible.
    Each number of an action has a part of the mask.
    """
    if not isinstance(observation, gs.Dict) or MASK not in observation.spaces:
        return None
    parts = mask_sizes(action)
    if parts is None or observation[MASK].shape != (int(parts.sum()),):
        return None
    starts = np.cumsum(parts) - parts

    def broken(masks: np.ndarray) -> np.ndarray:
        possible = np.logical_or.reduceat(np.asarray(masks) != 0, starts, -1)
        return np.asarray(~possible.all(-1))

    return broken


def mask_rows(
    observation: gymnasium.Space, action: gymnasium.Space, arrays: list[np.ndarray]
) -> Callable[[], np.ndarray] | None:
    """Return a function that finds rows whose mask allows no action, bool ``[B]``.

    It reads the leaves of the observations, ``[B, ...]`` each; None without a mask.
    """
    broken = mask_rule(observation, action)
    if broken is None:
        return None
    paths = [leaf.path for leaf in spaces.leaves(observation)]
    masks = arrays[paths.index((MASK,))]
    return lambda: broken(masks)


def mask_sizes(action: gymnasium.Space) -> np.ndarray | None:
    """Return the entries of a mask for each number of an action; None without masks.

    The mask of a Dict or Tuple has those of its Discrete and MultiDiscrete parts, side
    by side, in the order of ``spaces.leaves``.
    """
    if isinstance(action, gs.Dict | gs.Tuple):
        sizes = [mask_sizes(leaf.space) for leaf in spaces.leaves(action)]
        sizes = [x for x in sizes if x is not None]
        return np.concatenate(sizes) if sizes else None
    if isinstance(action, gs.Discrete):
        return np.ravel(action.n)
    return np.ravel(action.nvec) if isinstance(action, gs.MultiDiscrete) else None


def mask_defect(row: int | None = None) -> Defect:
    """Return the defect of a mask that allows no action, in a row of a batch."""
    name = f"observation[{MASK!r}]"
    text = (
        f"{name} allows no action; expected at least one in every state that is not "
        "terminal: allow an action without effect, or return terminated=True"
    )
    return Defect(text, "no action", name, row)
