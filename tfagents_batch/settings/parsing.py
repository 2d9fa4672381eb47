"""Flags of settings on a command line, and their help.

A program parses in two passes if one flag decides which others exist::

    kind = REGISTRY[peek(argv, "algorithm") or "ppo"]
    run, settings = parse(argv, [(Experiment, ""), (kind, "algorithm")])
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from absl import flags as absl_flags

from tfagents_batch.config import leaves
from tfagents_batch.errors import UserError
from tfagents_batch.settings import fields, suggest

HELP = frozenset({"--help", "-h", "-help", "--helpshort", "--helpfull"})


def define_flags(
    flag_values: absl_flags.FlagValues, config: Any, prefix: str = ""
) -> None:
    """Define an absl flag for every setting; fields of type Any have none.

    The values of a config become the defaults, those of its class if it is one. The
    prefix "algorithm" gives ``--algorithm.epochs``.
    """
    for name, hint, help, _, default in leaves(config, prefix):
        parser = _Parser(fields.kind(hint))
        flag = absl_flags.Flag(
            *(parser, None, name, None, help),  # the default is set below, unparsed
            boolean=parser.kind.boolean,
            allow_using_method_names=True,
        )
        flag.default = flag.value = default
        flag_values[name] = flag


def overrides(
    flag_values: absl_flags.FlagValues, config: Any, prefix: str = ""
) -> dict[str, Any]:
    """Return the settings given as flags, by dotted names without the prefix."""
    return {
        name.removeprefix(f"{prefix}."): flag_values[name].value
        for name, *_ in leaves(config, prefix)
        if flag_values[name].present
    }


def parse(
    arguments: Sequence[str], parts: Sequence[tuple[Any, str]], some: bool = False
) -> list[dict[str, Any]]:
    """Parse a command line; return the settings that were given for each part.

    Flags are ``--name=value``, ``--name value``, and ``--name`` or ``--noname`` for a
    bool. Unlike absl's own parser this refuses stray arguments and flags given twice.

    Args:
      arguments: command line without the program's name.
      parts: pairs of a config (or its class) and a prefix, as in ``define_flags``.
      some: there are other flags, too, which are left out.

    Raises:
      UserError: for an unknown flag, or a value that its flag does not accept.
    """
    known = absl_flags.FlagValues()
    for config, prefix in parts:
        define_flags(known, config, prefix)
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
        if name not in known and some:
            if not equals and rest and not rest[0].startswith("--"):
                rest.pop(0)  # its value, unless it is a bool
            continue
        if name not in known:
            hint = suggest.setting(name, {other: f"--{other}" for other in known})
            hint = hint or "--help lists all flags"
            raise UserError(f"unknown flag --{name}; {hint}")
        if known[name].present:
            raise UserError(f"--{name} is given twice; pass it once")
        if not equals:
            value = "true" if known[name].boolean else _following(name, rest)
        try:
            known[name].parse(value)
        except absl_flags.IllegalFlagValueError as error:
            raise UserError(str(error).removeprefix("flag ")) from None
    return [overrides(known, *part) for part in parts]


def peek(arguments: Sequence[str], name: str) -> str | None:
    """Return the text of one flag before parsing the others; None if not given."""
    for index, argument in enumerate(arguments):
        if argument.startswith(f"--{name}="):
            return argument.partition("=")[2]
        if argument == f"--{name}":
            return _following(name, list(arguments[index + 1 :]))
    return None


def help_text(parts: Sequence[tuple[Any, str]], arguments: Sequence[str] = ()) -> str:
    """Return the help of all flags of ``parse``: default, type and description.

    Flags are in groups, by prefix; those of a prefix without a group come first. Those
    of a nested config are left out if neither its defaults nor ``arguments`` use it.
    """
    unused = {name: flag for x in parts for name, flag in _unused(*x, arguments)}
    groups: dict[tuple[str, str], list[str]] = {}
    for leaf in (leaf for part in parts for leaf in leaves(*part)):
        if leaf.name.rpartition(".")[0] in unused:
            continue
        kind, default = fields.kind(leaf.hint), fields.to_text(leaf.value)
        entry = f"  --{leaf.name}={default}  ({kind.type})\n      {leaf.help}"
        groups.setdefault((leaf.name.rpartition(".")[0], leaf.group), []).append(entry)
    sections = []
    for key in sorted(groups, key=lambda key: (key[0], key[1] != "")):
        heading = " ".join(filter(None, key)) or "general"
        sections.append(
            "\n".join([f"{heading} flags, with their defaults:", *groups[key]])
        )
    sections += [f"{name} flags: listed with {flag}" for name, flag in unused.items()]
    return "\n\n".join(sections)


def _unused(
    config: Any, prefix: str, arguments: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the prefixes of settings that are not used, and flags to use them."""
    config = config() if isinstance(config, type) else config
    for field in dataclasses.fields(config):
        if "used_if" in field.metadata:
            other, *values = field.metadata["used_if"]
            flag = f"{prefix}.{other}" if prefix else other
            if (peek(arguments, flag) or getattr(config, other)) not in values:
                name = f"{prefix}.{field.name}" if prefix else field.name
                yield name, " or ".join(f"--{flag}={value}" for value in values)


class _Parser(absl_flags.ArgumentParser):
    """Parser of an absl flag."""

    def __init__(self, kind: fields.Kind):
        self.kind, self.syntactic_help = kind, kind.expected

    def parse(self, argument: str) -> Any:
        try:
            return self.kind.read(argument)
        except ValueError as error:
            raise ValueError(self.kind.complaint(error)) from None


def _following(name: str, rest: list[str]) -> str:
    """Take the next argument as the value of ``--name``."""
    if not rest or rest[0].startswith("--"):
        raise UserError(f"--{name} needs a value; write --{name}=<value>")
    return rest.pop(0)
