"""Speed of environments: ``python -m benchmarks.environments --row=cartpole-32``."""

from __future__ import annotations

import dataclasses
import pathlib

from benchmarks.contenders import CONTENDERS
from benchmarks.measure import command, duel, process, results, rows, tables
from benchmarks.work import machine
from tfagents_batch.config import option


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    row: tuple[str, ...] = option((), "rows to measure; all by default")
    pairs: int = option(5, "rounds; every contender runs once in each", least=1)
    seconds: float = option(10.0, "measured seconds of each run", above=0)
    num_workers: int | None = option(
        None, "number of our workers; by default the row's, or one per core", least=1
    )
    contender: str = option("", "run only this contender once; record nothing")
    peer_python: str = option("", "interpreter that has Stable-Baselines3")
    start_seconds: float = option(600.0, "time limit of a run, besides its seconds")
    results: str = option(
        str(results.FOLDER / "environments.jsonl"), "file to append to"
    )


def main(flags: Command) -> int:
    """Measure the rows, append the results to the file, and print a table."""
    path, deadline = pathlib.Path(flags.results), flags.start_seconds + flags.seconds

    def adapted(row: rows.Row) -> rows.Row:
        workers = flags.num_workers or max(row.work.num_workers, machine.cores())
        workers = min(workers, row.work.num_envs)
        changes = {"seconds": flags.seconds, "num_workers": workers}
        return row._replace(work=dataclasses.replace(row.work, **changes))

    def run(name: str, row: rows.Row) -> process.Result | process.Failure:
        pythons = {"peers": flags.peer_python}
        return process.run_contender(name, row.work, deadline, pythons)

    def play(name: str, row: rows.Row) -> bool:
        process.report(f"== {name}: {flags.pairs} pairs of {flags.seconds:g} s")
        started = results.context()
        played = duel.play(row, flags.pairs, lambda each, _: run(each, row))
        results.append(path, started, duel.lines(name, row, played, CONTENDERS))
        return bool(played.failures)

    selected = rows.select(flags.row, rows.ENVIRONMENTS)
    selected = {name: adapted(row) for name, row in selected.items()}
    known = rows.contenders(rows.ENVIRONMENTS)
    status = duel.each(selected, known, flags.contender, run, play)
    if not flags.contender:
        print(tables.environments(results.read(path)))
    return status


if __name__ == "__main__":
    command.run(Command, main)
