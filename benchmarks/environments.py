"""Speed of environments: ``python -m benchmarks.environments --row=cartpole-32``."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Sequence

from benchmarks import table
from benchmarks.contenders import CONTENDERS
from benchmarks.measure import command, duel, process, results, rows
from benchmarks.work import machine
from tfagents_batch.config import option, unknown
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import app


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


def main(argv: Sequence[str]) -> int:
    """Measure the rows, append the results to the file, and print a table."""
    flags = app.parse(argv, Command)
    if flags is None:
        return 0
    known = rows.contenders(rows.ENVIRONMENTS)
    if flags.contender and flags.contender not in known:
        raise UserError(unknown("contender", flags.contender, known))
    path = pathlib.Path(flags.results)

    def play(name: str, row: rows.Row) -> bool:
        workers = flags.num_workers or max(row.work.num_workers, machine.cores())
        workers = min(workers, row.work.num_envs)
        changes = {"seconds": flags.seconds, "num_workers": workers}
        row = row._replace(work=dataclasses.replace(row.work, **changes))
        if flags.contender:
            result = _run(flags.contender, row, flags)
            return command.show_result(name, flags.contender, result)
        return _play(name, row, flags, path)

    selected = rows.select(flags.row, rows.ENVIRONMENTS)
    failed = duel.each(selected, play, command.report)
    if not flags.contender:
        print(table.markdown(results.read(path)))
    return 1 if failed else 0


def _play(name: str, row: rows.Row, flags: Command, path: pathlib.Path) -> bool:
    """Measure and record a row; return whether a contender failed."""
    command.report(f"== {name}: {flags.pairs} pairs of {flags.seconds:g} s")
    run = results.context()
    played = duel.play(
        row, flags.pairs, lambda each, _: _run(each, row, flags), command.report
    )
    results.append(path, run, duel.lines(name, row, played, CONTENDERS))
    return bool(played.failures)


def _run(name: str, row: rows.Row, flags: Command) -> dict | process.Failure:
    deadline = flags.start_seconds + flags.seconds
    pythons = {"peers": flags.peer_python}
    return process.run_contender(name, dataclasses.asdict(row.work), deadline, pythons)


if __name__ == "__main__":
    sys.exit(command.run(main))
