"""Time to a mean return: ``python -m benchmarks.learning --row=cartpole-475``."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import time
from typing import Any, Literal

from benchmarks.measure import (
    caches,
    command,
    curves_plot,
    duel,
    process,
    results,
    rows,
    tables,
)
from benchmarks.measure.process import Failure, Result, report
from benchmarks.work import machine
from benchmarks.work.thresholds import ALIASES, OURS, PEER, TASKS, Learning, Task
from tfagents_batch.config import option
from tfagents_batch.errors import UserError

CONTENDERS = (OURS, PEER)
_PICTURE = str(machine.ROOT / "docs/images/time_to_threshold.png")
_PROBE_STEPS = 2**40  # no limit: seconds end a probe
# A run ends itself after the iteration at its deadline. Later than this it is killed.
_GRACE_SECONDS = 300.0


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
    results: str = option(str(results.FOLDER / "learning.jsonl"), "file to append to")
    plot: bool = option(False, "measure nothing, draw the newest results")
    out: str = option(_PICTURE, "picture to draw")


def main(flags: Command) -> int:
    """Measure the tasks, record every run, and print a table."""
    tasks = rows.select(flags.row, TASKS, ALIASES)
    path = pathlib.Path(flags.results)
    if flags.plot:
        curves_plot.draw(results.read(path), flags.out)
        print(flags.out)
        return 0
    with caches.Caches() as folders:
        runner = Runner(flags, folders)
        status = duel.each(
            tasks,
            CONTENDERS,
            flags.contender,
            runner.run,
            lambda name, task: play(name, task, runner, path),
        )
    if not flags.contender:
        print(tables.learning(results.read(path)))
    return status


class Runner:
    """Runner of contenders, each in a new process.

    Args:
      flags: flags of the command.
      folders: cache folders for our contender.
    """

    def __init__(self, flags: Command, folders: caches.Caches):
        self.flags = flags
        self._folders = folders

    def work(self, name: str, task: Task, **changes: Any) -> Learning:
        """Return the work of a contender.

        Args:
          name: name of the contender.
          task: task to run.
          **changes: changed fields of the task's work.
        """
        steps = self.flags.steps or task.steps[name]
        fixed = {"steps": steps, "deadline": task.deadline}
        return dataclasses.replace(task.work, **{**fixed, **changes})

    def run(self, name: str, task: Task, **changes: Any) -> Result | Failure:
        """Run a task once, with the work of the same arguments."""
        work, home = self.work(name, task, **changes), ""
        deadline, python = task.deadline + _GRACE_SECONDS, self.flags.peer_python
        if name == OURS and self.flags.cache == "cold":
            home = self._folders.cold()
        elif name == OURS:
            home = self._folders.warm(
                work.preset,
                lambda home: launch(OURS, first_iteration(work), home, deadline),
            )
        return launch(name, work, home, deadline, python)

    def settings(self, task: Task) -> dict[str, Any]:
        """Return the peer's fastest settings; each runs twice for ``probe_seconds``.

        Raises:
          UserError: if none of them runs.
        """
        if not (seconds := self.flags.probe_seconds):
            return {}
        threads = sorted({1, machine.cores()})
        tried = []
        # The better run of each counts.
        for how, count in duel.PROBES * [
            *itertools.product(task.vectorisations, threads)
        ]:
            settings = {"threads": count, "vectorisation": how}
            changes = {"settings": settings, "seconds": seconds, "steps": _PROBE_STEPS}
            found = self.run(PEER, task, **changes)
            if isinstance(found, Failure):
                report(f"{settings}: failed: {found}")
                continue
            phases, steps = found["phases"], task.steps[PEER]
            whole = sum(phases.values()) - phases["training"] + steps / found["rate"]
            report(f"{settings}: {whole:.0f} s for its whole budget")
            tried.append((whole, settings))
        if not tried:
            raise UserError(f"{PEER} runs with none of its settings; see above")
        return min(tried, key=lambda pair: pair[0])[1]


def launch(
    name: str, work: Learning, home: str, deadline: float, peer_python: str = ""
) -> Result | Failure:
    """Run a contender in a new process with the cache folder ``home``."""
    work = dataclasses.replace(work, cache_home=home, launched=time.time())
    return process.run_contender(name, work, deadline, {"peers": peer_python})


def first_iteration(work: Learning) -> Learning:
    """Return a work that ends after its first iteration."""
    return dataclasses.replace(work, steps=1, eval_every=0)


def play(name: str, task: Task, runner: Runner, path: pathlib.Path) -> bool:
    """Run a task and record each run at its end; return whether one failed."""
    flags = runner.flags
    report(f"== {name}: {flags.rounds} rounds, {flags.cache} cache")
    started = results.context()
    contenders = [each for each in CONTENDERS if each in task.steps]
    settings = runner.settings(task) if PEER in contenders else {}
    head = {
        "row": name if flags.cache == "cold" else f"{name}-{flags.cache}",
        "task": name,
        "title": task.title,
        "goal": task.goal,
        "cache": flags.cache,
    }
    first: list[Result] = []

    def run(each: str, number: int) -> Result | Failure:
        changes = {"settings": settings} if each == PEER else {}
        result = runner.run(each, task, seed=number, **changes)
        line = {**head, "contender": each, "round": number}
        if isinstance(result, Failure):
            line["failed"] = result._asdict()
        else:
            same = {k: v for k, v in result["same"].items() if k != "episode_seeds"}
            first.append(same)
            if same != first[0]:
                raise duel.DifferentWork(
                    f"{each} did other work: {same}, not {first[0]}"
                )
            config = runner.work(each, task, seed=number, **changes).config()
            line |= {"config": config, **result}
            what = "reached" if result["reached"] else "NOT reached"
            report(
                f"round {number} of {flags.rounds}: {each}: {what} in "
                f"{result['seconds']:.1f} s, {result['steps']:,} steps"
            )
        results.append(path, started, [line])
        return result

    return bool(process.alternate(contenders, flags.rounds, run).failures)


if __name__ == "__main__":
    command.run(Command, main)
