"""What alarms are made of: looks at one line of metrics after the other.

A symptom is a function of a line that says how bad it is. How long that has to last
before anybody is told is its patience, which ``alarms`` has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium


class Line(NamedTuple):
    """What is logged at one moment.

    Attributes:
      step: env steps.
      metrics: scalars by their log names.
    """

    step: int
    metrics: Mapping[str, float]


class Facts(NamedTuple):
    """What there is to know of a run before it starts.

    Attributes:
      steps: environment steps of the whole run.
      num_envs: B.
      settings: of the algorithm.
      action_space: of one environment; None if unknown.
      max_episode_steps: the environments' own time limit; None if unknown.
      masked: whether observations say which actions are valid.
      inherited: whether the agent had been trained before, so that it may be good from
        the start.
    """

    steps: int
    num_envs: int
    settings: Any
    action_space: gymnasium.Space | None = None
    max_episode_steps: int | None = None
    masked: bool = False
    inherited: bool = False

    def setting(self, name: str, otherwise: Any = None) -> Any:
        """A setting, of algorithms that have it."""
        return getattr(self.settings, name, otherwise)


class Seen(NamedTuple):
    """How a line looks; neither bad nor good is in between, where nothing changes.

    Attributes:
      bad: as an unhealthy run's.
      good: as a healthy run's.
      text: what is seen, why it matters and what to try, if it is bad.
      lines: that it counts for, if it is bad: more where one is enough.
    """

    bad: bool
    good: bool
    text: str = ""
    lines: int = 1


class Patience(NamedTuple):
    """How long something has to last.

    Attributes:
      lines: bad ones in a row before it is an alarm.
      part: of the run that these have to span.
      calm: good ones in a row before it may be an alarm again.
    """

    lines: int
    part: float = 0.0
    calm: int = 5


class Symptom(NamedTuple):
    """Something that goes wrong.

    Attributes:
      name: of its alarm.
      patience: before it is one.
      look: at a line; None if the line says nothing of it.
    """

    name: str
    patience: Patience
    look: Callable[[Line], Seen | None]


def above(value: float, limit: float, clear: float, text: str) -> Seen:
    """Bad above a limit, as is NaN; good up to another one, which is lower."""
    return Seen(not value <= limit, value <= clear, text)


def below(value: float, limit: float, clear: float, text: str) -> Seen:
    """Bad below a limit, as is NaN; good from another one on, which is higher."""
    return Seen(not value >= limit, value >= clear, text)
