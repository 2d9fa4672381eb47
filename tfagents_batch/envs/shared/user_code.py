"""Import of users' code that a name mentions: ``module:Class`` or ``./file.py:Class``.

Workers import this file too, so it must not import TensorFlow.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.settings import suggest


def split(name: str, what: str = "environment") -> tuple[str | None, str]:
    """Return module or absolute file path, and attribute; module None for an id.

    Errors say what the user's name stands for.
    """
    module, _, target = name.rpartition(":")
    if module.endswith(".py"):
        path = Path(module).expanduser().absolute()
        if not path.is_file():
            raise UserError(f"{what} {name!r}: there is no file {path}")
        return str(path), target
    return (None if re.search(r"-v\d+$", target) else module), target


def import_module(module: str, name: str, what: str = "environment") -> ModuleType:
    """Import a module for a check; turn exceptions into a UserError."""
    try:
        return load(module)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name is not None
        hint = ""
        if missing and f"{module}.".startswith(f"{error.name}."):
            hint = "; install it, run from its folder, or pass ./file.py:Class"
        raise UserError(
            f"{what} {name!r}: importing {module} raised "
            f"{type(error).__name__}: {error}{hint}"
        ) from error


def import_attribute(
    name: str, module: str, target: str, what: str = "environment"
) -> Any:
    """Import an attribute for a check; turn exceptions into a UserError."""
    loaded = import_module(module, name, what)
    try:
        return attribute(loaded, target)
    except AttributeError:
        close = suggest.closest(target, _own(loaded))
        hint = f"; did you mean {close!r}?" if close else ""
        raise UserError(f"{what} {name!r}: {module} has no {target!r}{hint}") from None


def _own(module: ModuleType) -> list[str]:
    """Return names of the public classes and functions of a module or its package."""
    return [
        name
        for name, x in vars(module).items()
        if (inspect.isclass(x) or inspect.isfunction(x))
        and f"{x.__module__}.".startswith(f"{module.__name__}.")
        and name[0] != "_"
    ]


def load(module: str) -> ModuleType:
    """Import a module by name, or by the absolute path of its file."""
    if not module.endswith(".py"):
        return importlib.import_module(module)
    digest = hashlib.sha256(module.encode()).hexdigest()[:8]
    key = f"{Path(module).stem}_{digest}"  # files of the same name do not collide
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, module)
        assert spec and spec.loader  # as its name ends in .py
        sys.modules[key] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules[key])
        except BaseException:
            del sys.modules[key]
            raise
    return sys.modules[key]


def attribute(module: ModuleType, name: str) -> Any:
    """Return an attribute, such as ``Class`` or ``Class.method``."""
    return functools.reduce(getattr, name.split("."), module)
