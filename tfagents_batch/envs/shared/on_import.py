"""Call a function as soon as a module is imported, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def when_imported(name: str, call: Callable[[ModuleType], None]) -> None:
    """Call a function with a module, now or right after its first import.

    Args:
      name: name of the module.
      call: takes the module, whose code has been executed.
    """
    if name in sys.modules:
        call(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, call))


class _Finder:
    """Finder that finds one module as others do, and calls after its execution."""

    def __init__(self, name: str, call: Callable[[ModuleType], None]):
        self._name, self._call = name, call

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self._name:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, specs), None)
        if spec is not None:
            spec.loader = _Loader(spec.loader, self._executed)
        return spec

    def _executed(self, module: ModuleType) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self._call(module)


class _Loader:
    """A module's loader, which calls after the module's execution."""

    def __init__(self, loader: Any, call: Callable[[ModuleType], None]):
        self._loader, self._call = loader, call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._call(module)
