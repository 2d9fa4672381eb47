"""Time to a mean return: ``python -m benchmarks.learning --row=cartpole-475``."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from benchmarks.measure import (
    caches,
    command,
    curves_plot,
    duel,
    process,
    ratios,
    results,
    rows,
    tables_learning,
)
from benchmarks.measure.duel import DifferentWork
from benchmarks.work import machine
from benchmarks.work.thresholds import ALIASES, OURS, PEER, TASKS, Learning, Task
from tfagents_batch.config import option, unknown
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import app

CONTENDERS = (OURS, PEER)
FILE = "learning.jsonl"
PICTURE = machine.ROOT / "docs/images/time_to_threshold.png"
_PROBE_STEPS = 2**40  # no limit: seconds end a probe
# A run ends itself after the iteration at its deadline. Later than this it is killed.
_GRACE_SECONDS = 300.0

Result = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    row: tuple[str, ...] = option((), "tasks to measure; all by default")
    rounds: int = option(5, "rounds, with their numbers as seeds; both run", least=1)
    cache: Literal["cold", "warm"] = option(
        "cold", "cache of our compiled programs; both have the native engine"
    )
    probe_seconds: float = option(
        10.0, "seconds to try each setting of the peer, twice; 0 tries none", least=0
    )
    steps: int | None = option(None, "environment steps, not the task's own", least=1)
    contender: str = option("", "run only this contender once; record nothing")
    peer_python: str = option("", "interpreter that has Stable-Baselines3")
    results: str = option(str(results.FOLDER / FILE), "file to append to")
    plot: bool = option(False, "measure nothing, draw the newest results")
    out: str = option(str(PICTURE), "picture to draw")


def main(argv: Sequence[str]) -> int:
    """Measure the tasks, record every run, and print a table."""
    flags = app.parse(argv, Command)
    if flags is None:
        return 0
    if flags.contender and flags.contender not in CONTENDERS:
        raise UserError(unknown("contender", flags.contender, CONTENDERS))
    tasks = rows.select(flags.row, TASKS, ALIASES)
    path = pathlib.Path(flags.results)
    if flags.plot:
        curves_plot.draw(results.read(path), flags.out)
        print(flags.out)
        return 0
    with caches.Caches() as folders:
        runner = Runner(flags, folders)

        def play(name: str, task: Task) -> bool:
            if flags.contender:
                result = runner.run(flags.contender, task)
                return command.show_result(name, flags.contender, result)
            return _play(name, task, runner, path)

        failed = duel.each(tasks, play, command.report)
    if not flags.contender:
        print(tables_learning.markdown(results.read(path)))
    return 1 if failed else 0


class Runner:
    """Runner of contenders, each in a new process.

    Args:
      flags: flags of the command.
      folders: cache folders for our contender.
    """

    def __init__(self, flags: Command, folders: caches.Caches):
        self.flags = flags
        self._folders = folders

    def run(self, name: str, task: Task, **changes: Any) -> Result | process.Failure:
        """Run a task once.

        Args:
          name: name of the contender.
          task: task to run.
          **changes: changed fields of the task's work.
        """
        work = self.work(name, task, **changes)
        if name == OURS:
            return self._launch(name, work, task, cache_home=self._cache(work, task))
        return self._launch(name, work, task)

    def work(self, name: str, task: Task, **changes: Any) -> Learning:
        """Return the work of ``run``, with the same arguments."""
        steps = self.flags.steps or task.steps[name]
        fixed = {"steps": steps, "deadline": task.deadline}
        return dataclasses.replace(task.work, **{**fixed, **changes})

    def settings(self, task: Task) -> dict[str, Any]:
        """Return the peer's fastest settings; each runs twice for ``probe_seconds``.

        Raises:
          UserError: if none of them runs.
        """
        if not self.flags.probe_seconds:
            return {}
        tried = []
        for settings in duel.PROBES * [*candidates(task)]:  # the better run counts
            found = self.run(
                PEER,
                task,
                settings=settings,
                seconds=self.flags.probe_seconds,
                steps=_PROBE_STEPS,
            )
            if isinstance(found, process.Failure):
                command.report(f"{settings}: failed: {found}")
                continue
            seconds = projected(found, task.steps[PEER])
            command.report(f"{settings}: {seconds:.0f} s for its whole budget")
            tried.append((seconds, settings))
        if not tried:
            raise UserError(f"{PEER} runs with none of its settings; see above")
        return min(tried, key=lambda pair: pair[0])[1]

    def _cache(self, work: Learning, task: Task) -> str:
        if self.flags.cache == "cold":
            return self._folders.cold()

        def fill(folder: str) -> None:
            first = dataclasses.replace(work, steps=1, eval_every=0)
            found = self._launch(OURS, first, task, cache_home=folder)
            if isinstance(found, process.Failure):
                raise UserError(f"the run that warms the cache failed: {found}")

        return self._folders.warm(work.preset, fill)

    def _launch(self, name: str, work: Learning, task: Task, cache_home: str = ""):
        work = dataclasses.replace(work, cache_home=cache_home, launched=time.time())
        pythons = {"peers": self.flags.peer_python}
        return process.run_contender(
            name, dataclasses.asdict(work), task.deadline + _GRACE_SECONDS, pythons
        )


def candidates(task: Task) -> Iterator[dict[str, Any]]:
    """Yield the settings of the peer that may be its fastest."""
    for vectorisation in task.vectorisations:
        for threads in sorted({1, machine.cores()}):
            yield {"threads": threads, "vectorisation": vectorisation}


def projected(result: Result, steps: int) -> float:
    """Return the expected seconds from the launch to the end of ``steps``."""
    phases = result["phases"]
    return sum(phases.values()) - phases["training"] + steps / result["rate"]


def _play(name: str, task: Task, runner: Runner, path: pathlib.Path) -> bool:
    """Run a task and record each run at its end; return whether one failed."""
    flags = runner.flags
    command.report(f"== {name}: {flags.rounds} rounds, {flags.cache} cache")
    run = results.context()
    contenders = [each for each in CONTENDERS if each in task.steps]
    settings = runner.settings(task) if PEER in contenders else {}
    head = {
        "row": name if flags.cache == "cold" else f"{name}-{flags.cache}",
        "task": name,
        "title": task.title,
        "goal": task.goal,
        "cache": flags.cache,
    }
    same, failed = None, set()
    for number, names in enumerate(ratios.rounds(contenders, flags.rounds), 1):
        for each in names:
            if each in failed:
                continue
            changes = {"settings": settings} if each == PEER else {}
            result = runner.run(each, task, seed=number, **changes)
            line = {**head, "contender": each, "round": number}
            if isinstance(result, process.Failure):
                failed.add(each)
                command.report(f"failed: {result}")
                results.append(path, run, [{**line, "failed": result._asdict()}])
                continue
            same = _check_same(each, result["same"], same)
            config = runner.work(each, task, seed=number, **changes).config()
            results.append(path, run, [{**line, "config": config, **result}])
            what = "reached" if result["reached"] else "NOT reached"
            command.report(
                f"round {number} of {flags.rounds}: {each}: {what} in "
                f"{result['seconds']:.1f} s, {result['steps']:,} steps"
            )
    return bool(failed)


def _check_same(name: str, got: Result, before: dict[int, Result] | None):
    """Return what all runs have in common; refuse a run that differs."""
    fixed = {k: v for k, v in got.items() if k != "episode_seeds"}
    if before is not None and fixed != before:
        raise DifferentWork(f"{name} did other work: {fixed}, not {before}")
    return fixed


if __name__ == "__main__":
    sys.exit(command.run(main))
