"""Ids that the training process has registered, for its workers.

A worker is a fresh process, so it lacks the ids of the user's script and of the modules
that only the script imports. A function that creates an environment by such an id needs
them. Entry points are unpickled by their first use, because that may import modules.
"""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Sequence
from typing import Any

import cloudpickle
import gymnasium

from tfagents_batch.envs.adapters import legacy_gym
from tfagents_batch.envs.shared import failures
from tfagents_batch.envs.shared.on_import import when_imported
from tfagents_batch.errors import UserError


class Deferred:
    """Entry point that is unpickled by its first use.

    Args:
      id: id that it belongs to.
      data: its pickle, or the reason why it cannot be pickled.
    """

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


def collect() -> dict[str, list[bytes]]:
    """Return the pickles of all registered specs, by package."""
    registries = {"gymnasium": gymnasium.registry}
    if "gym" in sys.modules:
        registries["gym"] = legacy_gym.registered()
    return {
        package: [_pickled(spec) for spec in list(registry.values())]
        for package, registry in registries.items()
    }


def install(pickles: dict[str, Sequence[bytes]]) -> None:
    """Register what ``collect`` has returned in the training process.

    gym's ids are registered once an environment imports gym, which takes megabytes.
    """
    _register(gymnasium.registry, pickles["gymnasium"])
    if specs := pickles.get("gym"):
        when_imported(
            "gym.envs", lambda envs: _register(legacy_gym.registered(envs), specs)
        )


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
