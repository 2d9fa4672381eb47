"""Findings of an environment check, each listed once, and their report."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tfagents_batch.envs.shared import failures
from tfagents_batch.envs.shared.failures import Defect

DEFECT, WARNING, HINT = LEVELS = "defect", "warning", "hint"
# The same exceptions as in a worker; Ctrl-C must still end the check.
CATCH = (Exception, SystemExit)
_FACTS = (
    *("env", "observation_space", "action_space", "max_episode_steps", "steps"),
    *("episodes", "shortest_episode", "longest_episode", "reward", "reproducible"),
)


class Place(NamedTuple):
    """Place of a finding.

    Attributes:
      call: "constructor", "reset()", "step()" or "close()"; "" for no call.
      episode: counted from 0; None if it does not matter.
      step: number of steps of the episode before the call.
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
    """One problem, listed once for all its occurrences.

    Attributes:
      level: "defect", "warning" or "hint".
      kind: kind of problem: "shape", "dtype", "type", "bounds", "finite", "reused", ...
      field: "reward", "observation['camera']", "reset()", "action_space", ...
      text: what is wrong, what was expected and what to do.
      place: place of the first occurrence.
      counts: number of occurrences by call.
      traceback_text: traceback of the exception; "" if there was none.
    """

    level: str
    kind: str
    field: str
    text: str
    place: Place
    counts: dict[str, int]
    traceback_text: str = ""

    def __str__(self) -> str:
        """Return one line."""
        line = f"{self.level}: {self.text}"
        if not str(self.place):
            return line
        line += f" [{self.place}"
        if sum(self.counts.values()) > 1:
            counts = [f"{call} {count}" for call, count in self.counts.items()]
            line += f"; times seen: {', '.join(counts)}"
        return f"{line}]"

    def full_text(self) -> str:
        """Return the line of the finding, followed by its traceback."""
        if not self.traceback_text:
            return str(self)
        return f"{self}\n{textwrap.indent(self.traceback_text.rstrip(), ' ' * 4)}"


class Report:
    """Report of ``check_env``.

    Args:
      env: the environment, as text.

    Attributes:
      facts: "env", "observation_space" and "action_space" as text;
        "max_episode_steps"; "steps", finished "episodes", "shortest_episode",
        "longest_episode" and "reward" (lowest and highest) of the main run; and
        "reproducible". None if unknown.
    """

    def __init__(self, env: str = ""):
        self._findings: dict[tuple[str, str], Finding] = {}
        self.facts: dict[str, Any] = dict.fromkeys(_FACTS) | {"env": env}

    @property
    def defects(self) -> tuple[Finding, ...]:
        """Problems that break the environment API or damage data; fix these."""
        return self._of(DEFECT)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Behaviour that works but is probably unintended."""
        return self._of(WARNING)

    @property
    def hints(self) -> tuple[Finding, ...]:
        """Changes that may make learning easier."""
        return self._of(HINT)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Defects, then warnings, then hints."""
        return self.defects + self.warnings + self.hints

    @property
    def ok(self) -> bool:
        """True if there are no defects."""
        return not self.defects

    def __str__(self) -> str:
        """Return the facts, and the findings with the tracebacks of exceptions."""
        findings = (finding.full_text() for finding in self.findings)
        return "\n".join([self.overview(), *findings])

    __repr__ = __str__  # a notebook shows the report

    def overview(self) -> str:
        """Return the headline, and a line for each fact."""
        facts = (f"  {key}: {value}" for key, value in self.facts.items())
        return "\n".join([self.headline(), *facts])

    def headline(self) -> str:
        """Return one line: the environment and the number of findings."""
        counts = [
            f"{count or 'no'} {level}{'' if count == 1 else 's'}"
            for level, count in ((level, len(self._of(level))) for level in LEVELS)
            if count or level == DEFECT
        ]
        return f"environment {self.facts['env']}: {', '.join(counts)}"

    def add(
        self,
        level: str,
        kind: str,
        field: str,
        text: str,
        place: Place,
        traceback_text: str = "",
    ) -> None:
        """Add a finding, or count a repeated one; the first place is stored."""
        key = kind, field
        text = " ".join(text.split())  # spaces may print several lines
        if key not in self._findings:
            self._findings[key] = Finding(
                level, kind, field, text, place, {}, traceback_text
            )
        counts = self._findings[key].counts
        counts[place.call] = counts.get(place.call, 0) + 1

    def add_defects(self, defects: Iterable[Defect], place: Place) -> None:
        """Add what a rule found, such as those of ``validation``."""
        for defect in defects:
            field = defect.field or place.call
            self.add(DEFECT, defect.kind, field, str(defect), place)

    def attempt(
        self, place: Place, function: Callable, *args: Any, **kwargs: Any
    ) -> tuple[bool, Any]:
        """Call a function of an environment, and add its exception as a defect.

        Returns:
          whether it returned, and its result.
        """
        arguments = [short(value) for value in args]  # before anything can change it
        try:
            return True, function(*args, **kwargs)
        except Defect as defect:
            self.add_defects([defect], place)
            return False, None
        except CATCH as error:
            trace = error.__traceback__
            inner = error.with_traceback(trace and trace.tb_next)  # skip this frame
            traced = failures.describe(inner)["traceback_text"]
            action = f", with action {arguments[0]}" if arguments else ""
            kind, call = f"raised {type(error).__name__}", place.call
            text = f"{call} raised {words(error)}{action}; expected no exception: see "
            self.add(DEFECT, kind, call, f"{text}its traceback", place, traced)
            return False, None

    def _of(self, level: str) -> tuple[Finding, ...]:
        """Return the findings of a level, in order of discovery."""
        return tuple(x for x in self._findings.values() if x.level == level)


def words(error: BaseException) -> str:
    """Return class and text of an exception in one line."""
    described = failures.describe(error)
    return short(f"{described['type_name']}: {described['text']}")


def short(value: Any) -> str:
    """Return a value as one line of at most about 200 characters."""
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else f"{text[:200]}..."
