"""Algorithms by name: those of this package, and the user's own.

The user's own is a class, ``module:Class`` or ``./file.py:Class``. Its attribute
``Config`` is the dataclass of its settings, see ``interfaces.Algorithm``. A run folder
stores only its name, which is never imported from there: the user passes it again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from tfagents_batch import algorithms, config
from tfagents_batch.envs.registry import describe
from tfagents_batch.envs.shared import user_code
from tfagents_batch.errors import UserError
from tfagents_batch.settings import suggest

_METHODS = ("update",)  # others may be attributes of an instance
_PARTS = "config", "policy", "make_policy", "compilable"
_OF_CONFIG = "source", "accepts", "check", "alarms", "update_size"


class Entry(NamedTuple):
    """A class of algorithms, and the dataclass of its settings."""

    kind: type
    config: type


_own: dict[str, Entry] = {}  # the user's, by the names of this process


def name_of(algorithm: str | type) -> str:
    """Return the name of an algorithm that the user passes; import it if need be."""
    if algorithm in algorithms.REGISTRY:
        return algorithm
    if isinstance(algorithm, str):
        known = algorithm.lower() in algorithms.REGISTRY  # such as PPO
        if not known and (peer := suggest.peer(algorithm)):
            raise UserError(f"unknown algorithm {algorithm!r}; {peer}")
        if ":" not in algorithm:
            raise UserError(
                config.unknown("algorithm", algorithm, algorithms.REGISTRY)
                + "; your own is module:Class or ./file.py:Class"
            )
        module, target = user_code.split(algorithm, "algorithm")
        imported = user_code.import_attribute(algorithm, module, target, "algorithm")
        name, kind = algorithm, imported
    else:
        name, kind = describe(algorithm), algorithm
    if not isinstance(kind, type):
        raise UserError(
            f"algorithm {name} is a {type(kind).__name__}; expected a class"
        )
    _own[name] = Entry(kind, _checked(name, kind))
    return name


def register(name: str, kind: type) -> None:
    """Make a class known in this process by the name that it has in another one."""
    if name not in algorithms.REGISTRY:
        _own[name] = Entry(kind, _checked(name, kind))


def is_known(name: Any) -> bool:
    """Return whether an algorithm has this name, in this process."""
    return isinstance(name, str) and (name in algorithms.REGISTRY or name in _own)


def entry(name: str) -> Entry:
    """Return the classes of a name; the user's own may have to be passed again."""
    if is_known(name):
        return _own.get(name) or Entry(*algorithms.REGISTRY[name])
    if isinstance(name, str) and ":" in name:
        raise UserError(
            f"the algorithm {name!r} is your own code and is only imported when you "
            "pass it again: pass algorithm (flag --algorithm)"
        )
    raise UserError(config.unknown("algorithm", name, algorithms.REGISTRY))


def check_parts(algorithm: Any) -> None:
    """Refuse an algorithm, just created, without a part that a run needs."""
    what = f"algorithm {type(algorithm).__name__}"
    if not hasattr(algorithm.learner, "named_variables"):
        raise UserError(
            f"{what} has no learner with named_variables(), the variables of a "
            "checkpoint; set self.learner, see docs/own_algorithm.md"
        )
    _require(what, algorithm, _PARTS)


def _checked(name: str, kind: type) -> type:
    """Return the settings of a user's class, which has all parts of an algorithm."""
    settings = getattr(kind, "Config", None)
    if not (isinstance(settings, type) and dataclasses.is_dataclass(settings)):
        raise UserError(
            f"algorithm {name} has no attribute Config; expected the dataclass of its "
            "settings, such as Config = dqn.DQNConfig"
        )
    _require(f"algorithm {name}", kind, _METHODS)
    _require(f"the Config of algorithm {name}", settings, _OF_CONFIG)
    return settings


def _require(what: str, kind: Any, names: Sequence[str]) -> None:
    missing = [name for name in names if not hasattr(kind, name)]
    if missing:
        raise UserError(
            f"{what} has no {', '.join(missing)}; see interfaces.Algorithm, or make it "
            "a class with the update of an algorithm of this package"
        )
