"""Speed of training: ``python -m benchmarks.throughput --row=ppo-cartpole-p1``."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks import table
from benchmarks.contenders import CONTENDERS
from benchmarks.measure import command, duel, process, results, rows
from benchmarks.work import machine
from benchmarks.work.asynchronous import Asynchronous
from benchmarks.work.off_policy import OffPolicy
from benchmarks.work.training import Training
from tfagents_batch.config import option, unknown
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import app

FILE = "training.jsonl"

Work = Training | OffPolicy | Asynchronous


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    row: tuple[str, ...] = option((), "rows to measure; all by default")
    pairs: int = option(5, "rounds; every contender runs once in each", least=1)
    steps: int | None = option(None, "env steps of each run; None: the row's", least=1)
    seconds: float = option(
        10.0, "minimum of measured seconds; a run continues up to it", least=0
    )
    probe_seconds: float = option(
        4.0, "seconds to try each setting of a peer; the best runs", above=0
    )
    probes: int = option(
        duel.PROBES, "how often to try each setting; the better run counts", least=1
    )
    num_workers: int | None = option(None, "our workers; None: one per core", least=1)
    contender: str = option("", "run only this contender once; record nothing")
    peer_python: str = option("", "interpreter that has Stable-Baselines3 and SBX")
    tf_agents_python: str = option("", "interpreter that has TF-Agents")
    batch_ppo_python: str = option("", "interpreter that has batch-ppo")
    sample_factory_python: str = option("", "interpreter that has Sample Factory")
    deadline_seconds: float = option(3600.0, "time limit of a run", above=0)
    results: str = option(str(results.FOLDER / FILE), "file to append to")


def main(argv: Sequence[str]) -> int:
    """Measure the rows, append the results to the file, and print a table."""
    flags = app.parse(argv, Command)
    if flags is None:
        return 0
    known = rows.contenders(rows.TRAINING)
    if flags.contender and flags.contender not in known:
        raise UserError(unknown("contender", flags.contender, known))
    path = pathlib.Path(flags.results)

    def play(name: str, row: rows.Row) -> bool:
        row = row._replace(work=_work(row.work, flags))
        if flags.contender:
            result = _run(flags.contender, row.work, flags)
            return command.show_result(name, flags.contender, result)
        return _play(name, row, flags, path)

    selected = rows.select(flags.row, rows.TRAINING)
    failed = duel.each(selected, play, command.report)
    if not flags.contender:
        print(table.training(results.read(path)))
    return 1 if failed else 0


def lines(
    name: str, row: rows.Row, probed: duel.Probed, played: duel.Played, seeds: list[int]
) -> list[dict[str, Any]]:
    """Return the lines to record, for our default and for our fastest setting.

    Args:
      name: name of the row.
      row: row before probing.
      probed: result of probing all settings.
      played: results of the best settings.
      seeds: seeds of the rounds.
    """
    ours = CONTENDERS[row.subject].peer
    modes = [x for x in probed.row.rivals if CONTENDERS[x].peer == ours]
    rivals = tuple(x for x in probed.row.rivals if x not in modes)
    if row.subject in played.failures:
        modes = []  # they did not run either
    found = []
    for subject in (row.subject, *modes):
        fields = {
            "subject_setting": CONTENDERS[subject].setting,
            "seeds": seeds,
            "probes": probed.values,
            "probes_failed": {k: v.reason for k, v in probed.failures.items()},
        }
        chosen = row._replace(subject=subject, rivals=rivals)
        found += duel.lines(name, chosen, played, CONTENDERS, fields)
    return found


def _work(work: Work, flags: Command) -> Work:
    work = dataclasses.replace(
        work,
        steps=flags.steps or work.steps,
        num_workers=min(flags.num_workers or machine.cores(), work.num_envs),
    )
    # The first iteration or block warms up.
    blocks = max(1, work.iterations - 1)
    return dataclasses.replace(work, blocks=blocks, seconds=flags.seconds)


def _play(name: str, row: rows.Row, flags: Command, path: pathlib.Path) -> bool:
    """Measure and record a row; return whether a contender failed."""
    command.report(
        f"== {name}: {flags.pairs} pairs of {row.work.steps:,} env steps, and of "
        f"{flags.seconds:g} s at least"
    )
    run = results.context()
    short = dataclasses.replace(row.work, seconds=flags.probe_seconds, blocks=None)
    probed = duel.probe(
        row,
        lambda each: _run(each, short, flags),
        CONTENDERS,
        command.report,
        flags.probes,
    )
    seeds = list(range(1, flags.pairs + 1))
    played = duel.play(
        probed.row,
        flags.pairs,
        lambda each, number: _run(
            each, dataclasses.replace(row.work, seed=seeds[number - 1]), flags
        ),
        command.report,
    )
    results.append(path, run, lines(name, row, probed, played, seeds))
    return bool(played.failures)


def _run(name: str, work: Work, flags: Command) -> dict | process.Failure:
    pythons = {
        "peers": flags.peer_python,
        "tf_agents": flags.tf_agents_python,
        "batch_ppo": flags.batch_ppo_python,
        "sample_factory": flags.sample_factory_python,
    }
    return process.run_contender(
        name, dataclasses.asdict(work), flags.deadline_seconds, pythons
    )


if __name__ == "__main__":
    sys.exit(command.run(main))
