"""Flags of absl that environments read, such as ``FLAGS.map``.

absl raises an error for a flag that is read before the command line was parsed. Nothing
parses the command line of a worker, nor absl's flags in a script that does not use
them. So environments get default values, and workers get the values of all flags that
differ from their default in the training process. absl is not imported here, because
most environments do not use it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import cloudpickle

from tfagents_batch.envs.shared.on_import import when_imported

_MODULE = "absl.flags"
_NOT_USERS = ("absl", "tensorflow", "tfagents_batch")


def mark_as_parsed() -> None:
    """Let flags be read in this process, if absl is imported."""
    module = sys.modules.get(_MODULE)
    if module is not None and not module.FLAGS.is_parsed():
        module.FLAGS.mark_as_parsed()


def collect() -> dict[str, Any]:
    """Return the values of the users' flags that differ from their defaults."""
    module = sys.modules.get(_MODULE)
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


def install(values: Mapping[str, Any]) -> None:
    """Let flags be read in this worker, with ``values``, once absl is imported."""
    when_imported(_MODULE, lambda module: _adopt(module, values))


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
