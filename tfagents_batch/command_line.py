"""Strict command lines on absl flags; the global ``absl.flags.FLAGS`` is not used."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from absl import flags

from tfagents_batch import fields
from tfagents_batch.errors import UserError
from tfagents_batch.suggest import closest

_HELP = {"--help", "-h", "-help", "--helpshort", "--helpfull"}
_ABSL = {
    "flagfile": "write the flags out, or use --config",
    "undefok": "unknown flags are always an error here",
}
_WIDTH, _INDENT = 88, " " * 6


def define(
    flag_values: flags.FlagValues,
    name: str,
    kind: fields.Kind,
    default: Any,
    help: str,
) -> None:
    """Define one flag."""
    flag = flags.Flag(
        parser=_Parser(kind),
        serializer=_Serializer(),
        name=name,
        default=None,  # set below: absl would parse a text
        help_string=help,
        boolean=kind.boolean,
        allow_using_method_names=True,
    )
    flag.default = flag.value = default
    flag_values[name] = flag


def parse_argv(arguments: Sequence[str], flag_values: flags.FlagValues) -> str | None:
    """Parse a command line; flags that were given are then ``present``.

    Flags are ``--name=value``, ``--name value``, and ``--name`` or ``--noname`` for
    a bool. Unlike absl's own parser this refuses stray arguments, flags given twice,
    flags with one dash, ``--flagfile`` and ``--undefok``.

    Args:
      arguments: without the program's name.
      flag_values: with the flags defined.

    Returns:
      None, or the text to print if help was asked for; nothing is parsed then.

    Raises:
      UserError: naming the flag, what it got and what it takes.
    """
    if _HELP.intersection(arguments):
        return help_text(flag_values)
    rest = list(arguments)
    while rest:
        name, value = _split(rest.pop(0), flag_values)
        if name not in flag_values:
            positive = _positive(name, flag_values)
            if value is not None:
                raise UserError(f"--{name} takes no value; write --{positive}={value}")
            name, value = positive, "false"
        flag = flag_values[name]
        if flag.present:
            raise UserError(f"--{name} is given twice")
        if value is None:
            value = "true" if flag.boolean else _following(name, rest)
        try:
            flag.parse(value)
        except flags.Error as error:
            raise _user_error(error) from None
        flag.using_default_value = False
    try:
        flag_values.validate_all_flags()
    except flags.Error as error:
        raise _user_error(error) from None
    flag_values.mark_as_parsed()
    return None


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


def help_text(flag_values: flags.FlagValues) -> str:
    """All flags: default, help and accepted values, grouped by dotted prefix."""
    groups: dict[str, list[str]] = {}
    for name in flag_values:
        flag = flag_values[name]
        expected = flag.parser.syntactic_help or "true or false"  # of absl's own
        text = textwrap.fill(f"{flag.help} ({expected})", _WIDTH - len(_INDENT))
        entry = f"  --{name}={fields.to_text(flag.default)}\n"
        entry += textwrap.indent(text, _INDENT)
        groups.setdefault(name.rpartition(".")[0], []).append(entry)
    return "\n\n".join(
        "\n".join([f"{group or 'general'} flags, with their defaults:", *groups[group]])
        for group in sorted(groups)
    )


class _Parser(flags.ArgumentParser):
    """An absl parser of a kind."""

    def __init__(self, kind: fields.Kind):
        self._kind = kind
        self.syntactic_help = kind.expected

    def parse(self, argument: str) -> Any:
        try:
            return self._kind.read(argument)
        except ValueError as error:
            raise ValueError(self._kind.complaint(error)) from None

    def flag_type(self) -> str:
        return self._kind.expected


class _Serializer(flags.ArgumentSerializer):
    def serialize(self, value: Any) -> str:
        return fields.to_text(value)


def _split(argument: str, known: flags.FlagValues) -> tuple[str, str | None]:
    """Name and value of an argument that must be a flag."""
    name, equals, value = argument.lstrip("-").partition("=")
    if not argument.startswith("-") or not name:
        hint = "flags are written --name=value"
        if argument.lower() in ("true", "false"):
            hint = f"a switch takes its value as --name={argument}"
        raise UserError(f"stray argument {argument!r}; {hint}")
    if not argument.startswith("--"):
        raise UserError(f"{argument}: flags have two dashes; write -{argument}")
    if name in _ABSL and name not in known:
        raise UserError(f"--{name} is not supported; {_ABSL[name]}")
    return name, value if equals else None


def _positive(name: str, known: flags.FlagValues) -> str:
    """``x`` for ``nox``, where x is a bool; any other name is unknown."""
    positive = name.removeprefix("no")
    if positive != name and positive in known and known[positive].boolean:
        return positive
    close = closest(name, list(known))
    hint = f"did you mean --{close}?" if close else "--help lists all flags"
    raise UserError(f"unknown flag --{name}; {hint}")


def _following(name: str, rest: list[str]) -> str:
    """Take the next argument as the value of ``--name``."""
    if not rest or rest[0].startswith("--"):
        raise UserError(f"--{name} needs a value; write --{name}=<value>")
    return rest.pop(0)


def _user_error(error: flags.Error) -> UserError:
    return UserError(str(error).removeprefix("flag "))
