"""What a check of an environment found, each thing once, and the report of it."""

from __future__ import annotations

import dataclasses
import textwrap
from typing import Any, NamedTuple

DEFECT, WARNING, HINT = "defect", "warning", "hint"
_INDENT = " " * 4


class Place(NamedTuple):
    """Where something was seen.

    Attributes:
      call: "constructor", "reset()", "step()" or "close()"; "" for no call.
      episode: counted from 0; None where it does not matter.
      step: steps of the episode that were done before the call.
    """

    call: str = ""
    episode: int | None = None
    step: int | None = None

    def __str__(self) -> str:
        text = self.call
        if self.step is not None:
            text += f" at step {self.step}"
        if self.episode is not None:
            text += f" of episode {self.episode}"
        return text


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is wrong, wherever and however often it was seen.

    Attributes:
      level: "defect", "warning" or "hint".
      kind: what is wrong: "shape", "dtype", "type", "bounds", "finite", "reused", ...
      field: of what: "reward", "observation['camera']", "reset()", "action_space", ...
      text: what it is, what was expected and what to do.
      place: where it was seen first.
      counts: how often, by call.
      traceback_text: of an exception; "" if there was none.
    """

    level: str
    kind: str
    field: str
    text: str
    place: Place
    counts: dict[str, int]
    traceback_text: str = ""

    def __str__(self) -> str:
        """One line."""
        line = f"{self.level}: {self.text}"
        if not str(self.place):
            return line
        line += f" [{self.place}"
        if sum(self.counts.values()) > 1:
            each = [f"{call} {count}" for call, count in self.counts.items()]
            line += f"; times seen: {', '.join(each)}"
        return f"{line}]"


@dataclasses.dataclass(frozen=True)
class Report:
    """What ``check_env`` found.

    Attributes:
      defects: what breaks the environment API or damages data; mend these.
      warnings: what works, and is probably not meant.
      hints: what may make learning easier.
      facts: "env", "observation_space" and "action_space" (as text),
        "max_episode_steps" (None if there is no limit, or none is known), "steps" and
        "episodes" (that ended) of the main run, "longest_episode" and "reward" (lowest
        and highest) of it, "after_end" (what a step after an end does) and
        "reproducible"; None where it is not known.
    """

    defects: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    hints: tuple[Finding, ...]
    facts: dict[str, Any]

    @property
    def ok(self) -> bool:
        """Whether there are no defects."""
        return not self.defects

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Defects, then warnings, then hints."""
        return self.defects + self.warnings + self.hints

    def __str__(self) -> str:
        """The facts, and the findings with the tracebacks of exceptions."""
        lines = [f"{self.headline()}"]
        lines += [f"  {key}: {value}" for key, value in self.facts.items()]
        return "\n".join([*lines, *map(full_text, self.findings)])

    def headline(self) -> str:
        """One line: the environment, and how much was found."""
        counts = [
            f"{len(found) or 'no'} {level}{'' if len(found) == 1 else 's'}"
            for level, found in (
                (DEFECT, self.defects),
                (WARNING, self.warnings),
                (HINT, self.hints),
            )
            if found or level == DEFECT
        ]
        return f"environment {self.facts['env']}: {', '.join(counts)}"


def full_text(finding: Finding) -> str:
    """Its line, and the traceback under it."""
    if not finding.traceback_text:
        return str(finding)
    return f"{finding}\n{textwrap.indent(finding.traceback_text.rstrip(), _INDENT)}"


class Collector:
    """Gathers findings: those of one kind and field are one, and counted."""

    def __init__(self):
        self._found: dict[tuple[str, str], Finding] = {}

    def add(
        self,
        level: str,
        kind: str,
        field: str,
        text: str,
        place: Place,
        traceback_text: str = "",
    ) -> None:
        """Add a finding, or count it: what is kept is where it was seen first."""
        key = kind, field
        text = " ".join(text.split())  # spaces print themselves in several lines
        if key not in self._found:
            self._found[key] = Finding(
                level, kind, field, text, place, {}, traceback_text
            )
        counts = self._found[key].counts
        counts[place.call] = counts.get(place.call, 0) + 1

    def of(self, level: str) -> tuple[Finding, ...]:
        """The findings of a level, in the order in which they were met."""
        return tuple(each for each in self._found.values() if each.level == level)
