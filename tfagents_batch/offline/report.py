"""Findings of a validation, as a table and as JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import NamedTuple

from tfagents_batch.errors import UserError

ERROR, WARNING = "error", "warning"
_LONGEST = 120  # characters of a value in the table


class Example(NamedTuple):
    """Row where a rule was broken; without a place if the rule is about all rows."""

    file: str | None  # path of the file, or the kind of data in memory
    row: int | None  # its number in the file, from 1, without lines that have no text
    value: str | None  # the value, as text


@dataclasses.dataclass(frozen=True)
class Violation:
    """A broken rule."""

    rule: str  # name of the rule
    severity: str  # "error" or "warning"
    count: int  # number of rows, or of names such as ids of features
    text: str  # what is wrong, what was expected and what to do
    examples: tuple[Example, ...] = ()  # at most three


@dataclasses.dataclass(frozen=True)
class ValidationReport:
    """Result of ``validator.validate``."""

    rows: int  # number of rows
    findings: tuple[Violation, ...]  # errors, then warnings, in the order of the rules

    @property
    def errors(self) -> tuple[Violation, ...]:
        """Findings with which nothing is published."""
        return tuple(x for x in self.findings if x.severity == ERROR)

    @property
    def warnings(self) -> tuple[Violation, ...]:
        """Findings that may be intended."""
        return tuple(x for x in self.findings if x.severity == WARNING)

    def table(self) -> str:
        """Return the findings with their examples, and how many there are."""
        lines = []
        for x in self.findings:
            lines.append(f"{x.severity} {x.rule} ({x.count:,}): {x.text}")
            for file, row, value in x.examples:
                place = "" if file is None else f"{file}, row {row:,}: "
                lines.append(f"    {place}{_short(value)}")
        errors = counted(len(self.errors), ERROR)
        warnings = counted(len(self.warnings), WARNING)
        lines.append(f"{counted(self.rows, 'row')}: {errors}, {warnings}")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return a list of objects with the attributes of the findings."""
        content = [
            dataclasses.asdict(finding)
            | {"examples": [example._asdict() for example in finding.examples]}
            for finding in self.findings
        ]
        return json.dumps(content, indent=2)

    def raise_for_errors(self) -> None:
        """Raise the table as a UserError if there are errors."""
        if self.errors:
            raise UserError(f"the logged rows have errors\n{self.table()}")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``3 rows``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def number(x: float) -> str:
    """Return a number in about 6 characters."""
    return f"{x:,.0f}" if 1000 <= abs(x) < 1e6 else f"{x:.3g}"


def _short(value: str | None) -> str:
    text = "NULL" if value is None else " ".join(value.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
