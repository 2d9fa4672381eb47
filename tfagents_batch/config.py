"""Frozen dataclass <-> dotted absl flags <-> config.json.

A config is a frozen dataclass whose fields are made by ``option``. Everything else is
generated from it: a flag for each field (``--algorithm.learning_rate``) and plain
JSON. What is misspelled or of the wrong type is a ``UserError`` that names it.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Config:
    ...     epochs: int = option(10, "passes over a trajectory")
    >>> replace(Config(), {"epochs": 4})
    Config(epochs=4)
    >>> replace(Config(), {"epoch": 4})
    Traceback (most recent call last):
    tfagents_batch.errors.UserError: unknown setting 'epoch'; did you mean 'epochs'?

A program parses in two passes where one flag decides which others there are::

    kind = REGISTRY[peek(argv, "algorithm") or "ppo"]
    run, settings = parse(argv, [(Experiment, ""), (kind, "algorithm")])
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import textwrap
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from absl import flags

from tfagents_batch import fields
from tfagents_batch.errors import UserError
from tfagents_batch.suggest import closest, unknown

Config = TypeVar("Config")

HELP = frozenset({"--help", "-h", "-help", "--helpshort", "--helpfull"})
_WIDTH, _INDENT = 88, " " * 6


def option(
    default: Any,
    help: str,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    **marks: bool,
) -> Any:
    """A field of a config.

    Args:
      default: its value; dicts and lists are copied for every config.
      help: one line: what it is, and its unit.
      least, most, above: what ``check`` demands: at least, at most, more than. They
        hold for every number of a tuple and every value of a schedule, not for None.
      **marks: properties of the setting, by which ``marked`` finds it.
    """
    bounds = {"least": least, "most": most, "above": above}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    metadata = {"help": help, **given, **marks}
    if isinstance(default, (dict, list)):
        factory = functools.partial(copy.deepcopy, default)
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def marked(config: type, mark: str) -> tuple[str, ...]:
    """Names of the settings that were made with a mark, in the order of the fields."""
    return tuple(
        field.name for field in dataclasses.fields(config) if field.metadata.get(mark)
    )


def replace(config: Config, overrides: Mapping[str, Any]) -> Config:
    """A config in which some settings differ.

    Args:
      config: to start from.
      overrides: ``{name: value}``. Names may be dotted; the value of a nested config
        may be a dict of its settings.

    Raises:
      UserError: for an unknown name or a value of the wrong type.
    """
    return _replace(config, overrides, "")


def to_dict(config: Any) -> dict[str, Any]:
    """The settings as JSON data, in the order of the fields."""
    return fields.to_plain(config)


def from_dict(cls: type[Config], data: Mapping[str, Any]) -> Config:
    """The config that ``to_dict`` described; what is missing has its default.

    Raises:
      UserError: for an unknown name or a value of the wrong type.
    """
    return _replace(cls(), data, "")


def check(config: Config, path: str = "") -> Config:
    """The config, each value as its type keeps it (a number as a schedule, ...).

    A nested config is only checked for its class; it may have a ``check`` of its own.

    Args:
      config: to check.
      path: in front of the names in errors: "network.".

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
        elif hint is not Any:
            value = changes[field.name] = _checked(fields.kind(hint), value, name)
            complaint = fields.out_of_bounds(value, field.metadata)
            if complaint:
                raise UserError(f"{name} is {fields.to_text(value)}; {complaint}")
    return dataclasses.replace(config, **changes)


def flat(plain: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return what ``to_dict`` returned by dotted names, as flags have them."""
    found: dict[str, Any] = {}
    for name, value in plain.items():
        if isinstance(value, dict) and value:
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def define_flags(flag_values: flags.FlagValues, config: Any, prefix: str = "") -> None:
    """Define an absl flag for every setting, which absl or ``parse`` reads.

    Args:
      flag_values: takes the flags: ``absl.flags.FLAGS``, or a fresh one.
      config: a config, whose values are shown as defaults, or its class.
      prefix: in front of each name, with a dot: "algorithm" for
        ``--algorithm.epochs``. Fields of type Any have no flag.
    """
    for name, hint, help, default in _leaves(config, prefix):
        parser = _Parser(fields.kind(hint))
        flag = flags.Flag(
            *(parser, None, name, None, help),  # the default, below: not to be parsed
            boolean=parser.kind.boolean,
            allow_using_method_names=True,
        )
        flag.default = flag.value = default
        flag_values[name] = flag


def overrides(
    flag_values: flags.FlagValues, config: Any, prefix: str = ""
) -> dict[str, Any]:
    """Return the settings that were given as flags: dotted names without the prefix."""
    return {
        name.removeprefix(f"{prefix}."): flag_values[name].value
        for name, *_ in _leaves(config, prefix)
        if flag_values[name].present
    }


def parse(
    arguments: Sequence[str], parts: Sequence[tuple[Any, str]]
) -> list[dict[str, Any]]:
    """Parse a command line.

    Flags are ``--name=value``, ``--name value``, and ``--name`` or ``--noname`` for
    a bool. Unlike absl's own parser this refuses stray arguments and flags given twice.

    Args:
      arguments: without the program's name.
      parts: pairs of a config, or its class, and what its flags begin with, as
        ``define_flags`` takes them.

    Returns:
      For each part the settings that were given, see ``overrides``.

    Raises:
      UserError: naming the flag, what it got and what it takes.
    """
    known = flags.FlagValues()
    for part in parts:
        define_flags(known, *part)
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or not name:
            raise UserError(
                f"stray argument {argument!r}; flags are written --name=value"
            )
        if name not in known and not equals:
            positive = name.removeprefix("no")
            if positive != name and positive in known and known[positive].boolean:
                name, equals, value = positive, "=", "false"
        if name not in known:
            close = closest(name, list(known))
            hint = f"did you mean --{close}?" if close else "--help lists all flags"
            raise UserError(f"unknown flag --{name}; {hint}")
        if known[name].present:
            raise UserError(f"--{name} is given twice")
        if not equals:
            value = "true" if known[name].boolean else _following(name, rest)
        try:
            known[name].parse(value)
        except flags.IllegalFlagValueError as error:
            raise UserError(str(error).removeprefix("flag ")) from None
    return [overrides(known, *part) for part in parts]


def peek(arguments: Sequence[str], name: str) -> str | None:
    """The text of one flag, before the others are known; None if it is not given.

    Raises:
      UserError: if it is given without a value.
    """
    for index, argument in enumerate(arguments):
        if argument.startswith(f"--{name}="):
            return argument.partition("=")[2]
        if argument == f"--{name}":
            return _following(name, list(arguments[index + 1 :]))
    return None


def help_text(parts: Sequence[tuple[Any, str]]) -> str:
    """All flags of ``parse``: default, help and accepted values, grouped by prefix."""
    groups: dict[str, list[str]] = {}
    for name, hint, help, default in (x for part in parts for x in _leaves(*part)):
        text = f"{help} ({fields.kind(hint).expected})"
        entry = f"  --{name}={fields.to_text(default)}\n"
        entry += textwrap.indent(textwrap.fill(text, _WIDTH - len(_INDENT)), _INDENT)
        groups.setdefault(name.rpartition(".")[0], []).append(entry)
    return "\n\n".join(
        "\n".join([f"{group or 'general'} flags, with their defaults:", *groups[group]])
        for group in sorted(groups)
    )


class _Parser(flags.ArgumentParser):
    """An absl parser of a kind."""

    def __init__(self, kind: fields.Kind):
        self.kind, self.syntactic_help = kind, kind.expected

    def parse(self, argument: str) -> Any:
        try:
            return self.kind.read(argument)
        except ValueError as error:
            raise ValueError(self.kind.complaint(error)) from None

    def flag_type(self) -> str:
        return self.kind.expected


def _leaves(config: Any, prefix: str) -> Iterator[tuple[str, Any, str, Any]]:
    """Dotted name, type, help and value of every setting, nested ones too."""
    config = config() if isinstance(config, type) else config
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        name = f"{prefix}.{field.name}" if prefix else field.name
        hint, value = hints[field.name], getattr(config, field.name)
        if dataclasses.is_dataclass(hint):
            yield from _leaves(value, name)
        elif hint is not Any:
            yield name, hint, field.metadata["help"], value


def _replace(config: Any, overrides: Any, path: str) -> Any:
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
            names = [path + leaf for leaf, *_ in _leaves(config, "")]
            raise UserError(unknown("setting", f"{path}{name}", names))
        if hint is Any or (nested and not tail and isinstance(value, hint)):
            changes[head] = value
        elif nested:
            current = changes.get(head, getattr(config, head))
            inner = {tail: value} if tail else value
            changes[head] = _replace(current, inner, f"{path}{head}.")
        else:
            changes[head] = _checked(fields.kind(hint), value, f"{path}{head}")
    return dataclasses.replace(config, **changes)


def _checked(kind: fields.Kind, value: Any, name: str) -> Any:
    try:
        return kind.check(value)
    except ValueError as error:
        raise UserError(f"{name} is {value!r}; {kind.complaint(error)}") from None


def _following(name: str, rest: list[str]) -> str:
    """Take the next argument as the value of ``--name``."""
    if not rest or rest[0].startswith("--"):
        raise UserError(f"--{name} needs a value; write --{name}=<value>")
    return rest.pop(0)
