"""Speed beside other libraries: ``python -m benchmarks.compare --row=ppo-*``."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

from benchmarks.measure import command, duel, process, results, rows, tables
from benchmarks.measure.process import Failure, Result, report
from benchmarks.work import machine
from benchmarks.work.works import Stepping
from tfagents_batch.config import option, unknown
from tfagents_batch.errors import UserError


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    row: tuple[str, ...] = option((), "rows to measure, such as ppo-*; all by default")
    pairs: int = option(5, "rounds; every contender runs once in each", least=1)
    steps: int | None = option(None, "env steps of each run; None: the row's", least=1)
    seconds: float = option(
        10.0, "minimum of measured seconds; a run continues up to it", least=0
    )
    num_workers: int | None = option(None, "our workers; None: one per core", least=1)
    contender: str = option("", "run only this contender once; record nothing")
    pythons: dict | None = option(
        None, "other interpreters by name: peers, tf_agents, batch_ppo, sample_factory"
    )
    deadline_seconds: float = option(3600.0, "time limit of a run", above=0)
    folder: str = option(str(results.FOLDER), "folder of the files to append to")


def main(flags: Command) -> int:
    """Measure the rows, append the results to their files, and print tables."""
    selected = rows.select(flags.row, rows.ROWS)
    known = rows.contenders(selected)
    if flags.contender and flags.contender not in known:
        raise UserError(unknown("contender", flags.contender, known))
    failed = False
    for name, row in selected.items():
        row = row._replace(work=adapted(row.work, flags))
        try:
            if flags.contender:
                result = run(flags.contender, row.work, flags)
                failed |= isinstance(result, Failure)
                print(result if isinstance(result, Failure) else json.dumps(result))
            else:
                failed |= measure(name, row, flags)
        except duel.DifferentWork as error:
            report(f"row {name} ends here, incomplete: {error}")
            failed = True
        except KeyboardInterrupt:
            report(f"row {name} ends here, incomplete; those before are recorded")
            raise
    if not flags.contender:
        for file in dict.fromkeys(row.file for row in selected.values()):
            path = pathlib.Path(flags.folder) / f"{file}.jsonl"
            print(tables.comparisons(results.read(path)))
    return int(failed)


def adapted(work: Any, flags: Command) -> Any:
    """Return a row's work with the flags' steps, seconds and workers."""
    workers = min(flags.num_workers or machine.cores(), work.num_envs)
    work = dataclasses.replace(work, seconds=flags.seconds, num_workers=workers)
    if isinstance(work, Stepping):
        return work
    work = dataclasses.replace(work, steps=flags.steps or work.steps)
    # The first iteration or block warms up.
    return dataclasses.replace(work, blocks=max(1, work.iterations - 1))


def run(name: str, work: Any, flags: Command) -> Result | Failure:
    """Run a contender once."""
    pythons = flags.pythons or {}
    return process.run_contender(name, work, flags.deadline_seconds, pythons)


def measure(name: str, row: rows.Row, flags: Command) -> bool:
    """Measure and record a row; return whether a contender failed."""
    report(f"== {name}: {flags.pairs} rounds")
    started = results.context()

    def once(each: str, number: int) -> Result | Failure:
        # Environments alone repeat the same actions in every round.
        seed = row.work.seed if isinstance(row.work, Stepping) else number
        return run(each, dataclasses.replace(row.work, seed=seed), flags)

    played = duel.play(row, flags.pairs, once)
    recorded = duel.lines(name, row, played)
    results.append(pathlib.Path(flags.folder) / f"{row.file}.jsonl", started, recorded)
    return bool(played.failures)


if __name__ == "__main__":
    command.run(Command, main)
