"""Speed beside other libraries: ``python -m benchmarks.compare --row=ppo-*``."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import tempfile
import time
from typing import Any, Literal

from benchmarks.measure import caches, command, duel, process, results, rows, tables
from benchmarks.measure.process import Failure, Result, report
from benchmarks.work import machine
from benchmarks.work.works import Learning, Stepping
from tfagents_batch.config import option, unknown
from tfagents_batch.errors import UserError

OURS = "learn_ours"
# A run ends itself after the iteration at its deadline. Later than this it is killed.
_GRACE_SECONDS = 300.0


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    row: tuple[str, ...] = option((), "rows to measure, such as ppo-*; all by default")
    pairs: int = option(5, "rounds; every contender runs once in each", least=1)
    steps: int | None = option(None, "env steps of each run; None: the row's", least=1)
    seconds: float = option(
        10.0, "minimum of measured seconds; a run continues up to it", least=0
    )
    probe_seconds: float = option(
        4.0, "seconds to try each setting of a peer; the best runs", above=0
    )
    num_workers: int | None = option(None, "our workers; None: one per core", least=1)
    cache: Literal["cold", "warm"] = option(
        "cold", "cache of our compiled programs, for the time to a return"
    )
    contender: str = option("", "run only this contender once; record nothing")
    pythons: dict | None = option(
        None, "other interpreters by name: peers, tf_agents, batch_ppo, sample_factory"
    )
    deadline_seconds: float = option(3600.0, "time limit of a run", above=0)
    folder: str = option(str(results.FOLDER), "folder of the files to append to")


def main(flags: Command) -> int:
    """Measure the rows, append the results to their files, and print tables.

    A row that ends early, because its contenders did different work, does not affect
    the others.
    """
    selected = rows.select(flags.row, rows.ROWS)
    known = rows.contenders(selected)
    if flags.contender and flags.contender not in known:
        raise UserError(unknown("contender", flags.contender, known))
    failed = False
    with tempfile.TemporaryDirectory(prefix="benchmark-caches-") as folder:
        runner = Runner(flags, caches.Caches(folder))
        for name, row in selected.items():
            row = row._replace(work=runner.adapted(row.work))
            try:
                if flags.contender:
                    result = runner.run(flags.contender, row.work)
                    failed |= isinstance(result, Failure)
                    print(result if isinstance(result, Failure) else json.dumps(result))
                else:
                    failed |= measure(name, row, runner)
            except duel.DifferentWork as error:
                report(f"row {name} ends here, incomplete: {error}")
                failed = True
            except KeyboardInterrupt:
                report(f"row {name} ends here, incomplete; those before are recorded")
                raise
    if not flags.contender:
        for file in dict.fromkeys(row.file for row in selected.values()):
            path = pathlib.Path(flags.folder) / f"{file}.jsonl"
            print(tables.WRITERS[file](results.read(path)))
    return int(failed)


class Runner:
    """Runner of contenders, each in a new process.

    Args:
      flags: flags of the command.
      folders: cache folders for our contender that learns up to a threshold.
    """

    def __init__(self, flags: Command, folders: caches.Caches):
        self.flags = flags
        self._folders = folders

    def adapted(self, work: Any) -> Any:
        """Return a row's work with the flags' steps, seconds and workers."""
        flags = self.flags
        changes: dict[str, Any] = {}
        if flags.steps and not isinstance(work, Stepping):
            changes["steps"] = flags.steps
        if isinstance(work, Learning):
            return dataclasses.replace(work, **changes)
        changes["seconds"] = flags.seconds
        workers = flags.num_workers or machine.cores()
        changes["num_workers"] = min(workers, work.num_envs)
        work = dataclasses.replace(work, **changes)
        if isinstance(work, Stepping):
            return work
        # The first iteration or block warms up.
        return dataclasses.replace(work, blocks=max(1, work.iterations - 1))

    def run(self, name: str, work: Any) -> Result | Failure:
        """Run a contender once."""
        deadline = self.flags.deadline_seconds
        if isinstance(work, Learning):
            deadline = work.deadline + _GRACE_SECONDS
            if name == OURS:
                work = dataclasses.replace(work, cache_home=self._cache(work))
            work = dataclasses.replace(work, launched=time.time())
        return process.run_contender(name, work, deadline, self.flags.pythons or {})

    def short(self, work: Any) -> Any:
        """Return the work of trying a setting."""
        seconds = {"seconds": self.flags.probe_seconds}
        if not isinstance(work, Learning):
            seconds["blocks"] = None
        return dataclasses.replace(work, **seconds)

    def _cache(self, work: Learning) -> str:
        """Return the folder for our caches, cold or warm."""
        if self.flags.cache == "cold":
            return self._folders.cold()

        def fill(home: str) -> Result | Failure:
            first = dataclasses.replace(
                work, steps=1, eval_every=0, cache_home=home, launched=time.time()
            )
            return process.run_contender(OURS, first, work.deadline)

        return self._folders.warm(work.preset, fill)


def measure(name: str, row: rows.Row, runner: Runner) -> bool:
    """Measure and record a row; return whether a contender failed."""
    flags = runner.flags
    report(f"== {name}: {flags.pairs} rounds")
    started, values = results.context(), {}
    if not isinstance(row.work, Stepping):  # of environments, all settings are shown
        short = runner.short(row.work)
        row, values = duel.probe(row, lambda each: runner.run(each, short))

    def run(each: str, number: int) -> Result | Failure:
        # Environments alone repeat the same actions in every round.
        seed = row.work.seed if isinstance(row.work, Stepping) else number
        return runner.run(each, dataclasses.replace(row.work, seed=seed))

    played = duel.play(row, flags.pairs, run)
    if isinstance(row.work, Learning):
        recorded = duel.learned(name, row, played, flags.cache)
    else:
        recorded = duel.lines(name, row, played, probes=values)
    results.append(pathlib.Path(flags.folder) / f"{row.file}.jsonl", started, recorded)
    return bool(played.failures)


if __name__ == "__main__":
    command.run(Command, main)
