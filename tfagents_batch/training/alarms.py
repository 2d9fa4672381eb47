"""Alarms: what is wrong with a training run, in plain words, while it runs.

    alarms = Alarms(facts(config, env.spec))
    for alarm in alarms.check(metrics, step):
        print(alarm.text)

A state machine over the lines of metrics that are logged anyway; it reads nothing else
and changes nothing. Each alarm is raised when its symptom has lasted, and again only
after the symptom had gone for a while. What the symptoms are and where their limits
come from stands in ``update_symptoms`` and ``episode_symptoms``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch import spaces
from tfagents_batch.training.episode_symptoms import EPISODES
from tfagents_batch.training.progress import Progress
from tfagents_batch.training.symptom import Facts, Line, Symptom
from tfagents_batch.training.update_symptoms import UPDATE
from tfagents_batch.types import EnvSpec

__all__ = ["Alarm", "Alarms", "Facts", "facts"]


class Alarm(NamedTuple):
    """Something that a person should look at.

    Attributes:
      name: one word, the same for the same symptom.
      text: what is seen, with its numbers; why it matters; what to try.
    """

    name: str
    text: str


class Alarms:
    """Raises alarms, each once until it has cleared.

    Args:
      known: of the run, see ``facts``.

    Attributes:
      names: of all alarms there are.
    """

    def __init__(self, known: Facts):
        self._progress = Progress(known.steps)
        symptoms = [make(known, self._progress) for make in (*UPDATE, *EPISODES)]
        self._watches = [_Watch(symptom, known.steps) for symptom in symptoms]
        self.names = tuple(symptom.name for symptom in symptoms)

    @property
    def active(self) -> tuple[str, ...]:
        """Alarms that were raised and have not cleared."""
        return tuple(watch.name for watch in self._watches if watch.raised)

    def check(self, metrics: Mapping[str, Any], step: int) -> list[Alarm]:
        """Take a line of metrics.

        Args:
          metrics: by their log names; vectors are not looked at.
          step: env steps, not falling from call to call.

        Returns:
          Alarms that are new.
        """
        scalars = {k: float(v) for k, v in metrics.items() if np.ndim(v) == 0}
        line = Line(int(step), scalars)
        self._progress.add(line)
        found = [watch.look(line) for watch in self._watches]
        return [alarm for alarm in found if alarm is not None]

    def replay(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Take the lines of a run that is resumed (``read_metrics``), raising nothing.

        What was wrong then and still is, was said then.
        """
        for line in lines:
            self.check({k: v for k, v in line.items() if k != "step"}, line["step"])


def facts(config: Any, spec: EnvSpec, inherited: bool = False) -> Facts:
    """What alarms have to know of a run.

    Args:
      config: a ``training.experiment.Config``.
      spec: of its environments.
      inherited: whether it began with another run's agent.
    """
    leaves = spaces.leaves(spec.observation_space)
    return Facts(
        steps=config.steps,
        num_envs=config.num_envs,
        settings=config.settings,
        action_space=spec.action_space,
        max_episode_steps=spec.max_episode_steps,
        masked=any(leaf.path[-1:] == ("action_mask",) for leaf in leaves),
        inherited=inherited,
    )


class _Watch:
    """One symptom, and how long it has lasted."""

    def __init__(self, symptom: Symptom, steps: int):
        self.name, self.raised = symptom.name, False
        self._symptom = symptom
        self._span = symptom.patience.part * steps
        self._bad = self._good = self._since = 0

    def look(self, line: Line) -> Alarm | None:
        seen = self._symptom.look(line)
        if seen is None:
            return None
        self._good = self._good + 1 if seen.good else 0
        if seen.bad and not self._bad:
            self._since = line.step
        self._bad = self._bad + seen.lines if seen.bad else 0
        if self.raised:
            self.raised = self._good < self._symptom.patience.calm
            return None
        short = self._bad < self._symptom.patience.lines
        if not self._bad or short or line.step - self._since < self._span:
            return None
        self.raised = True
        return Alarm(self.name, seen.text)
