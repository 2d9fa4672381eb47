"""Checks of what a pool is made with, each refusal with what to do."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfagents_batch.envs import layout
from tfagents_batch.errors import UserError

INFO_DTYPES = ("float32", "int32", "bool")


def worker_count(num_workers: int | None, num_envs: int) -> int:
    if num_envs == 0:
        raise UserError("no constructors were given; expected one per environment")
    if num_workers is None:
        return min(os.cpu_count() or 1, num_envs) if has_workers() else 0
    if isinstance(num_workers, bool) or not isinstance(num_workers, (int, np.integer)):
        raise UserError(f"num_workers is {num_workers!r}; expected a number or None")
    if not 0 <= num_workers <= num_envs:
        raise UserError(
            f"num_workers is {num_workers}; expected 0 (in process) to {num_envs}, one "
            "per environment at most"
        )
    if num_workers and not has_workers():
        raise UserError(
            f"num_workers is {num_workers}, but worker processes need Linux (this is "
            f"{sys.platform}); use num_workers=0"
        )
    return int(num_workers)


def has_workers() -> bool:
    return sys.platform == "linux"


def info_columns(info_keys: Mapping[str, str] | None) -> dict[str, str]:
    columns = {}
    for key, dtype in (info_keys or {}).items():
        name = np.dtype(dtype).name
        if key in layout.STATISTICS:
            raise UserError(f"info_keys has {key!r}, which is counted by the library")
        if name not in INFO_DTYPES:
            allowed = ", ".join(INFO_DTYPES)
            raise UserError(f"info_keys[{key!r}] is {name}; expected one of {allowed}")
        columns[key] = name
    return columns


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        wanted = " or ".join(repr(choice) for choice in allowed)
        raise UserError(f"{name} is {value!r}; expected {wanted}")


def callables(constructors: Sequence[Any]) -> None:
    for index, constructor in enumerate(constructors):
        if not callable(constructor):
            raise UserError(
                f"constructor {index} is {constructor!r}; expected a function without "
                "arguments that makes a gymnasium.Env"
            )
