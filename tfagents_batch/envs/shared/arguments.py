"""Checks of a batch's arguments; each error says what to do."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfagents_batch.envs.shared import cpus, layout
from tfagents_batch.errors import UserError

MAX_ENVS = 1_000_000  # per batch; more are refused before memory is allocated
MAX_WORKERS = 1024  # each needs about 40 MB, and five file descriptors here
INFO_DTYPES = ("float32", "int32", "bool")


def batch_size(num_envs: Any) -> int:
    """Return the number of environments of a batch after checking it."""
    if not _is_whole(num_envs) or not 1 <= num_envs <= MAX_ENVS:
        raise UserError(
            f"num_envs is {num_envs!r}; expected an integer from 1 to {MAX_ENVS:,}"
        )
    return int(num_envs)


def worker_count(num_workers: int | None, num_envs: int, groups: int = 1) -> int:
    """Return a checked number of workers; None uses one per core."""
    if num_envs == 0:
        raise UserError("no constructors were given; expected one per environment")
    if num_workers is None:
        most = min(len(cpus.available()), num_envs)
        return max(most // groups, 1) * groups if has_workers() else 0
    if not _is_whole(num_workers):
        raise UserError(f"num_workers is {num_workers!r}; expected an integer or None")
    most = min(num_envs, MAX_WORKERS)
    if not 0 <= num_workers <= most:
        raise UserError(
            f"num_workers is {num_workers}; expected 0 (in process) to {most}, one "
            "per environment at most"
        )
    if num_workers and not has_workers():
        raise UserError(
            f"num_workers is {num_workers}, but worker processes need Linux (this is "
            f"{sys.platform}); use num_workers=0"
        )
    return int(num_workers)


def groups(groups: int, num_envs: int, num_workers: int) -> int:
    if not _is_whole(groups):
        raise UserError(f"groups is {groups!r}; expected an integer")
    if groups < 1 or num_envs % groups or num_workers % groups:
        raise UserError(
            f"groups is {groups}; expected a divisor of the numbers of environments "
            f"({num_envs}) and of workers ({num_workers})"
        )
    return int(groups)


def has_workers() -> bool:
    return sys.platform == "linux"


def info_columns(info_keys: Mapping[str, str] | None) -> dict[str, str]:
    columns = {}
    for key, dtype in (info_keys or {}).items():
        name = np.dtype(dtype).name
        if key in layout.STATISTICS:
            raise UserError(f"info_keys has {key!r}, which always exists; omit it")
        if name not in INFO_DTYPES:
            allowed = ", ".join(INFO_DTYPES)
            raise UserError(f"info_keys[{key!r}] is {name}; expected one of {allowed}")
        columns[key] = name
    return columns


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        wanted = " or ".join(repr(choice) for choice in allowed)
        raise UserError(f"{name} is {value!r}; expected {wanted}")


def at_least(
    name: str, value: Any, least: float, most: float = math.inf, or_none: bool = False
) -> None:
    if or_none and value is None:
        return
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not number or not least <= value <= most:
        bounds = f"{least:g} to {most:g}" if most < math.inf else f"at least {least:g}"
        raise UserError(f"{name} is {value!r}; expected a number, {bounds}")


def variables(values: Any) -> dict[str, str]:
    """Return checked environment variables; errors never show values (secrets)."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise UserError(
            f"worker_variables is a {type(values).__name__}; expected an object of "
            'strings, such as {"MUJOCO_GL": "egl"}'
        )
    for name, value in values.items():
        if not _is_valid_text(name) or not name or "=" in name:
            raise UserError(
                f"worker_variables has the name {name!r}; expected the name of an "
                "environment variable"
            )
        if not _is_valid_text(value):
            raise UserError(
                f"worker_variables[{name!r}] is a {type(value).__name__} that cannot "
                "be an environment variable; expected text without a zero byte"
            )
    return dict(values)


def callables(constructors: Sequence[Any]) -> None:
    for index, constructor in enumerate(constructors):
        if not callable(constructor):
            raise UserError(
                f"constructor {index} is {constructor!r}; expected a function without "
                "arguments that creates a gymnasium.Env"
            )


def _is_whole(number: Any) -> bool:
    return isinstance(number, (int, np.integer)) and not isinstance(number, bool)


def _is_valid_text(text: Any) -> bool:
    """Return whether ``text`` can be an environment variable of a process."""
    try:
        return b"\0" not in os.fsencode(text) and isinstance(text, str)
    except (TypeError, UnicodeEncodeError):
        return False
