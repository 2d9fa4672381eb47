"""Settings of a run by the names of their flags, such as ``algorithm.epochs``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from tfagents_batch import fields, sources
from tfagents_batch.config import flat, marked
from tfagents_batch.training.config import RunConfig, without_variables
from tfagents_batch.training.run_folder import config_file

_PARTS = "settings", "source"  # their flags have another name in front

# Settings that do not affect what is learned: seed, logging, evaluation and hardware.
SAME_CURVE = frozenset(marked(RunConfig, "same_curve"))


class Setting(NamedTuple):
    """Value of a setting, and the default of its algorithm, as JSON data."""

    value: Any
    default: Any

    @property
    def is_changed(self) -> bool:
        """Whether the value is not the default."""
        return self.value != self.default


def by_flag(plain: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return settings by the names of their flags.

    Args:
      plain: config of a run as JSON data, as in config.json.
      source: name of its source of experience.
    """
    settings, of_source = (plain.get(name) or {} for name in _PARTS)
    return (
        {name: value for name, value in plain.items() if name not in _PARTS}
        | flat(settings, "algorithm.")
        | flat(of_source, f"{source}.")
    )


def with_defaults(config: RunConfig) -> dict[str, Setting]:
    """Return all settings of a run by the names of their flags, with the defaults.

    Settings of a source that is the user's own code are left out.
    """
    usual, name = RunConfig(algorithm=config.algorithm), config.source.name
    is_own = type(config.source) not in sources.REGISTRY.values()
    if not is_own and type(config.source) is not type(usual.source):
        usual = dataclasses.replace(usual, source=type(config.source)())

    def values(config):
        plain = config_file.plain(without_variables(config))
        return by_flag(plain | {"source": {}} if is_own else plain, name)

    defaults = values(usual)
    return {
        key: Setting(value, defaults.get(key)) for key, value in values(config).items()
    }


def as_flag(name: str, value: Any) -> str:
    """Return a setting as it is written on a command line."""
    return f"--{name}={as_text(name, value)}"


def as_text(name: str, value: Any) -> str:
    """Return the value of a flag as text."""
    if isinstance(value, list) and "." in name:  # a tuple, which JSON does not have
        value = tuple(value)
    return fields.to_text(value)
