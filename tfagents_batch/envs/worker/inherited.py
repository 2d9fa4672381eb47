"""State of the training process that environments in workers may read.

A worker is a fresh process, so it lacks the ids of the user's script and of the modules
that only the script imports. A function that creates an environment by such an id needs
them. Entry points are unpickled by their first use, because that may import modules.

It also lacks absl's flags, such as ``FLAGS.map``, which raise an error if they are read
before a command line was parsed. So workers get the values that differ from the default
in the training process. absl is not imported here: most environments do not use it.
"""

from __future__ import annotations

import contextlib
import copy
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import cloudpickle
import gymnasium

from tfagents_batch.envs.shared import failures
from tfagents_batch.envs.wrappers import legacy_gym
from tfagents_batch.errors import UserError

_FLAGS = "absl.flags"
_NOT_USERS = ("absl", "tensorflow", "tfagents_batch")


class Deferred:
    """Entry point that is unpickled by its first use, or why it cannot be."""

    def __init__(self, id: str, data: bytes | str):
        self._id, self._data = id, data

    def __call__(self, **kwargs: Any) -> Any:
        return self._load()(**kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # also while it is unpickled itself
            raise AttributeError(name)
        return getattr(self._load(), name)

    def _load(self) -> Any:
        if isinstance(self._data, bytes):
            return pickle.loads(self._data)
        raise UserError(
            f"the entry point of {self._id!r} cannot be sent to a worker process "
            f"({self._data}); register it in a module, and name it with the id: "
            f"module:{self._id}"
        )


def collect() -> dict[str, Any]:
    """Return the state of this process, for ``install`` in a worker."""
    return {"ids": ids(), "flags": flags()}


def install(state: dict[str, Any]) -> None:
    """Give this worker the state of the training process."""
    register_ids(state["ids"])
    adopt_flags(state["flags"])


def register_ids(pickles: dict[str, list[bytes]]) -> None:
    """Register ids; those of gym once an environment imports gym, which is large."""
    _register(gymnasium.registry, pickles["gymnasium"])
    if specs := pickles.get("gym"):
        when_imported(
            "gym.envs", lambda envs: _register(legacy_gym.registered(envs), specs)
        )


def adopt_flags(values: Mapping[str, Any]) -> None:
    """Let flags be read, with these values, once an environment imports absl."""
    when_imported(_FLAGS, lambda module: _adopt(module, values))


def ids() -> dict[str, list[bytes]]:
    """Return the pickles of all registered specs, by package."""
    registries = {"gymnasium": gymnasium.registry}
    if "gym" in sys.modules:
        registries["gym"] = legacy_gym.registered()
    return {
        package: [_pickled(spec) for spec in list(registry.values())]
        for package, registry in registries.items()
    }


def _register(registry: dict[str, Any], specs: Sequence[bytes]) -> None:
    for data in specs:
        try:
            spec = pickle.loads(data)
        except Exception:  # such as arguments of a module that this worker lacks
            continue  # other environments do not need this id
        registry[spec.id] = spec


def _pickled(spec: Any) -> bytes:
    point, sent = spec.entry_point, copy.copy(spec)
    try:
        if not isinstance(point, str):
            sent.entry_point = Deferred(spec.id, cloudpickle.dumps(point))
        return cloudpickle.dumps(sent)
    except Exception as error:
        reason = f"{type(error).__name__}: {failures.clean(str(error))}"
        sent = copy.copy(spec)
        sent.entry_point = Deferred(spec.id, reason)
        for name in ("kwargs", "_kwargs"):
            if hasattr(sent, name):
                setattr(sent, name, {})
        return cloudpickle.dumps(sent)


def when_imported(name: str, call: Callable[[ModuleType], None]) -> None:
    """Call a function with a module, now or after its first import has executed it."""
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


def flags() -> dict[str, Any]:
    """Return the values of the users' flags that differ from their defaults."""
    module = sys.modules.get(_FLAGS)
    if module is None:
        return {}
    values = {}
    for name, defined in module.FLAGS.flags_by_module_dict().items():
        if name.partition(".")[0] in _NOT_USERS:
            continue
        for flag in defined:
            if not flag.using_default_value:
                with contextlib.suppress(Exception):  # it cannot be pickled
                    values[flag.name] = cloudpickle.loads(cloudpickle.dumps(flag.value))
    return values


def _adopt(module: ModuleType, values: Mapping[str, Any]) -> None:
    """Mark flags as parsed; give them ``values``, when they are defined later too."""
    kind, flags = module.FlagValues, module.FLAGS
    define = kind.__setitem__

    def define_with_value(self: Any, name: str, flag: Any) -> None:
        define(self, name, flag)
        if self is flags and name in values:
            flag.value = values[name]

    kind.__setitem__ = define_with_value
    for name in values.keys() & set(flags):
        flags[name].value = values[name]
    flags.mark_as_parsed()
