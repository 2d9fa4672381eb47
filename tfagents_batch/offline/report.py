"""Findings of a validation, as a table and as JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import NamedTuple

from tfagents_batch.errors import UserError

ERROR, WARNING = "error", "warning"
_LONGEST = 120  # characters of a value in the table


class Example(NamedTuple):
    """Row where a rule was broken; without a place if the rule is about the whole set.

    Attributes:
      file: path of the file, or the kind of data in memory.
      row: number of the row in the file, counted from 1; lines without text do not
        count.
      value: the value, as text.
    """

    file: str | None
    row: int | None
    value: str | None


@dataclasses.dataclass(frozen=True)
class Violation:
    """A broken rule.

    Attributes:
      rule: name of the rule.
      severity: "error" or "warning".
      count: number of rows, or of names such as ids of features.
      text: what is wrong, what was expected and what to do.
      examples: at most three.
    """

    rule: str
    severity: str
    count: int
    text: str
    examples: tuple[Example, ...] = ()


@dataclasses.dataclass(frozen=True)
class ValidationReport:
    """Result of ``validator.validate``.

    Attributes:
      rows: number of rows.
      findings: errors, then warnings, in the order of the rules.
    """

    rows: int
    findings: tuple[Violation, ...]

    @property
    def errors(self) -> tuple[Violation, ...]:
        """Findings with which nothing is published."""
        return tuple(each for each in self.findings if each.severity == ERROR)

    @property
    def warnings(self) -> tuple[Violation, ...]:
        """Findings that may be intended."""
        return tuple(each for each in self.findings if each.severity == WARNING)

    def table(self) -> str:
        """Return the findings with their examples, and how many there are."""
        lines = []
        for each in self.findings:
            lines.append(f"{each.severity} {each.rule} ({each.count:,}): {each.text}")
            for file, row, value in each.examples:
                place = "" if file is None else f"{file}, row {row:,}: "
                lines.append(f"    {place}{_short(value)}")
        errors = counted(len(self.errors), ERROR)
        warnings = counted(len(self.warnings), WARNING)
        lines.append(f"{counted(self.rows, 'row')}: {errors}, {warnings}")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return a list of objects with the attributes of the findings."""
        found = [
            dataclasses.asdict(each)
            | {"examples": [example._asdict() for example in each.examples]}
            for each in self.findings
        ]
        return json.dumps(found, indent=2)

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
