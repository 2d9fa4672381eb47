"""Call a function as soon as a module is imported, without importing it."""

from __future__ import annotations

import importlib.util
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
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_call(module: ModuleType) -> None:
            execute(module)
            self._call(module)

        spec.loader.exec_module = execute_and_call
        return spec
