"""Configs as frozen dataclasses and JSON.

A config is a frozen dataclass with fields from ``option``. A flag for each field
(``--algorithm.learning_rate``, see ``settings.parsing``) and the JSON of a config are
generated from it. A misspelled name or a wrong type raises a ``UserError``.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Config:
    ...     epochs: int = option(10, "passes over a trajectory")
    >>> replace(Config(), {"epochs": 4})
    Config(epochs=4)
    >>> replace(Config(), {"epoch": 4})
    Traceback (most recent call last):
    tfagents_batch.errors.UserError: unknown setting 'epoch'; did you mean 'epochs'?
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import typing
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from tfagents_batch.errors import UserError
from tfagents_batch.settings import fields, suggest
from tfagents_batch.settings.suggest import unknown

Config = TypeVar("Config")


def option(
    default: Any,
    help: str,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    instead_of: str | None = None,
    group: str | None = None,
    used_if: tuple[str, ...] | None = None,
    **marks: bool,
) -> Any:
    """Return a field of a config.

    Args:
      default: default value; dicts and lists are copied for every config.
      help: description in one line of at most 82 characters, with the unit.
      least, most, above, below: bounds that ``check`` tests: at least, at most, more
        than, less than. They hold for every number of a tuple and every value of a
        schedule; None passes.
      instead_of: setting of the same config that this one replaces: if this one is
        given, that one becomes None, and only one of them can be given.
      group: heading in the help, within the settings of a prefix.
      used_if: for a nested config, the name of another setting and the values with
        which it is used. With other values the help leaves its settings out.
      **marks: properties of the setting, see ``marked``.
    """
    bounds = {"least": least, "most": most, "above": above, "below": below}
    optional = bounds | {"instead_of": instead_of, "group": group, "used_if": used_if}
    used = {name: value for name, value in optional.items() if value is not None}
    metadata = {"help": help, **used, **marks}
    if isinstance(default, (dict, list)):
        factory = functools.partial(copy.deepcopy, default)
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def number(default: Any, help: str, **arguments: Any) -> Any:
    """Return a field whose number is an input of a program, see ``graph.inputs``.

    Use it for numbers, schedules or None that change no shape and that no Python code
    compares: another value then uses the same compiled program. The other arguments are
    those of ``option``.
    """
    return option(default, help, **arguments, number=True)


def inherited(base: type, name: str, *, default: Any) -> Any:
    """Return a field of a config's base class, by its name, with another default."""
    (field,) = (x for x in dataclasses.fields(base) if x.name == name)
    return dataclasses.field(default=default, metadata=field.metadata)


def is_number(field: dataclasses.Field) -> bool:
    """Return whether a field was made by ``number``."""
    return field.metadata.get("number", False)


def has_numbers(value: Any) -> bool:
    """Return whether a value is a config with fields made by ``number``."""
    return dataclasses.is_dataclass(value) and any(
        is_number(field) or has_numbers(getattr(value, field.name))
        for field in dataclasses.fields(value)
    )


def structure(config: Any) -> dict[str, Any]:
    """Return the settings as JSON data, without the values of numbers.

    What is left decides which program is traced: None, or the kind of a schedule.
    """
    settings = to_dict(config)
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if has_numbers(value):
            settings[field.name] = structure(value)
        elif is_number(field) and value is not None:
            # A piecewise schedule has as many numbers as points.
            points = len(getattr(value, "points", ()))
            settings[field.name] = [type(value).__name__, points]
    return settings


def marked(config: type, mark: str) -> tuple[str, ...]:
    """Return the names of the settings with a mark, in the order of the fields."""
    return tuple(
        field.name for field in dataclasses.fields(config) if field.metadata.get(mark)
    )


def replace(config: Config, overrides: Mapping[str, Any], path: str = "") -> Config:
    """Return a copy of a config with ``{name: value}`` replaced.

    Names may be dotted; the value of a nested config may be a dict of its settings.
    Names in errors get ``path`` in front, such as "network.".

    Raises:
      UserError: for an unknown name or a value of the wrong type.
    """
    return _replace(config, overrides, path, complete=False)


def to_dict(config: Any) -> dict[str, Any]:
    """Return the settings as JSON data, in the order of the fields."""
    return fields.to_plain(config)


def from_dict(cls: type[Config], data: Mapping[str, Any]) -> Config:
    """Return the config that ``to_dict`` described; missing settings get defaults.

    Raises:
      UserError: for an unknown name or a value of the wrong type.
    """
    return _replace(cls(), data, "", complete=True)


def check(config: Config, path: str = "") -> Config:
    """Check a config and convert its values to their types (a number to a schedule).

    Of a nested config only the class is checked; it may have its own ``check``. Names
    in errors get ``path`` in front, such as "network.".

    Raises:
      UserError: for a value of the wrong type or out of its field's bounds.
    """
    hints = typing.get_type_hints(type(config))
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        name, hint = path + field.name, hints[field.name]
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(hint):
            if not isinstance(value, hint):
                wanted = f"{hint.__module__}.{hint.__qualname__}"
                raise UserError(f"{name} is {value!r}; expected a {wanted}")
            known = {x.name for x in dataclasses.fields(hint)}
            for more in dataclasses.fields(value):  # of a class that extends it
                given = getattr(value, more.name)
                if more.name not in known and given != more.default:
                    raise UserError(
                        f"{name}.{more.name} is {given}, but this algorithm has no "
                        "such setting; leave it out"
                    )
        elif hint is not Any:
            value = changes[field.name] = _checked(fields.kind(hint), value, name)
            complaint = fields.out_of_bounds(value, field.metadata)
            if complaint:
                raise UserError(f"{name} is {fields.to_text(value)}; {complaint}")
    return dataclasses.replace(config, **changes)


def flat(plain: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a result of ``to_dict`` to dotted names, like those of flags."""
    flattened: dict[str, Any] = {}
    for name, value in plain.items():
        if isinstance(value, dict) and value:
            flattened |= flat(value, f"{prefix}{name}.")
        else:
            flattened[prefix + name] = value
    return flattened


def names_of(config: Any) -> list[str]:
    """Return the dotted names of all settings; those of type Any have none."""
    return [name for name, *_ in leaves(config, "")]


def setting(config: Any, name: str) -> tuple[fields.Kind, Mapping[str, Any]]:
    """Return the kind of a setting, by its dotted name, and its bounds."""
    *parts, last = name.split(".")
    for part in parts:
        config = getattr(config, part)
    (field,) = (x for x in dataclasses.fields(config) if x.name == last)
    return fields.kind(typing.get_type_hints(type(config))[last]), field.metadata


class NamedSetting(NamedTuple):
    """A setting that is no config; its name is dotted."""

    name: str
    hint: Any
    help: str
    group: str
    value: Any


def leaves(config: Any, prefix: str) -> Iterator[NamedSetting]:
    """Yield all settings, also those of nested configs, but for those of type Any."""
    config = config() if isinstance(config, type) else config
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        name = f"{prefix}.{field.name}" if prefix else field.name
        hint, value = hints[field.name], getattr(config, field.name)
        if dataclasses.is_dataclass(hint):
            yield from leaves(value, name)
        elif hint is not Any:
            group = _group(type(config), field.name)
            yield NamedSetting(name, hint, field.metadata["help"], group, value)


def _group(kind: type, name: str) -> str:
    """Return the group of a setting, which classes that change it need not repeat."""
    for base in kind.__mro__:
        field = getattr(base, "__dataclass_fields__", {}).get(name)
        if field is not None and "group" in field.metadata:
            return field.metadata["group"]
    return ""


def _replace(config: Any, overrides: Any, path: str, complete: bool) -> Any:
    """Return a copy with overrides; in a ``complete`` config, none replaces others."""
    if not isinstance(overrides, Mapping):
        what = path.rstrip(".") or "the config"
        raise UserError(f"{what} is {overrides!r}; expected an object of settings")
    hints = typing.get_type_hints(type(config))
    known = [field.name for field in dataclasses.fields(config)]
    changes: dict[str, Any] = {}
    for name, value in overrides.items():
        head, _, tail = str(name).partition(".")
        hint = hints.get(head)
        nested = dataclasses.is_dataclass(hint)
        if head not in known or (tail and not nested):
            full, names = f"{path}{name}", [path + leaf for leaf in names_of(config)]
            hint = suggest.setting(full, {x: repr(x) for x in names})
            if hint is None:
                raise UserError(unknown("setting", full, names))
            raise UserError(f"unknown setting {full!r}; {hint}")
        if hint is Any or (nested and not tail and isinstance(value, hint)):
            changes[head] = value
        elif nested:
            current = changes.get(head, getattr(config, head))
            inner = {tail: value} if tail else value
            changes[head] = _replace(current, inner, f"{path}{head}.", complete)
        else:
            changes[head] = _checked(fields.kind(hint), value, f"{path}{head}")
    if not complete:
        _unset_others(config, changes, path)
    return dataclasses.replace(config, **changes)


def _unset_others(config: Any, changes: dict[str, Any], path: str) -> None:
    """Set to None what a given setting is instead of, see ``option``."""
    for field in dataclasses.fields(config):
        name, other = field.name, field.metadata.get("instead_of")
        if other is None or changes.get(name) is None:
            continue
        if changes.get(other) is not None:
            raise UserError(
                f"{path}{name} is {changes[name]} and {path}{other} is "
                f"{changes[other]}, and one of them is instead of the other; pass only "
                "one"
            )
        changes[other] = None


def _checked(kind: fields.Kind, value: Any, name: str) -> Any:
    try:
        return kind.check(value)
    except ValueError as error:
        raise UserError(f"{name} is {value!r}; {kind.complaint(error)}") from None
