"""Speed of training: ``python -m benchmarks.throughput --row=ppo-cartpole-p1``."""

from __future__ import annotations

import dataclasses
import pathlib

from benchmarks.contenders import CONTENDERS
from benchmarks.measure import command, duel, process, results, rows, tables
from benchmarks.measure.process import Result
from benchmarks.work import machine
from benchmarks.work.works import Work
from tfagents_batch.config import option


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
    results: str = option(str(results.FOLDER / "training.jsonl"), "file to append to")


def main(flags: Command) -> int:
    """Measure the rows, append the results to the file, and print a table."""
    path = pathlib.Path(flags.results)
    selected = {
        name: row._replace(work=sized(row.work, flags))
        for name, row in rows.select(flags.row, rows.TRAINING).items()
    }
    status = duel.each(
        selected,
        rows.contenders(rows.TRAINING),
        flags.contender,
        lambda name, row: _run(name, row.work, flags),
        lambda name, row: _play(name, row, flags, path),
    )
    if not flags.contender:
        print(tables.training(results.read(path)))
    return status


def sized(work: Work, flags: Command) -> Work:
    """Return the work with the flags' steps, seconds and workers."""
    work = dataclasses.replace(
        work,
        steps=flags.steps or work.steps,
        num_workers=min(flags.num_workers or machine.cores(), work.num_envs),
    )
    # The first iteration or block warms up.
    blocks = max(1, work.iterations - 1)
    return dataclasses.replace(work, blocks=blocks, seconds=flags.seconds)


def lines(
    name: str,
    row: rows.Row,
    probed: duel.Probed,
    played: process.Played,
    seeds: list[int],
) -> list[Result]:
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


def _play(name: str, row: rows.Row, flags: Command, path: pathlib.Path) -> bool:
    """Measure and record a row; return whether a contender failed."""
    least = f"{flags.pairs} pairs of {row.work.steps:,} env steps, and of"
    process.report(f"== {name}: {least} {flags.seconds:g} s at least")
    started, seeds = results.context(), list(range(1, flags.pairs + 1))
    short = dataclasses.replace(row.work, seconds=flags.probe_seconds, blocks=None)
    probed = duel.probe(
        row, lambda each: _run(each, short, flags), CONTENDERS, flags.probes
    )

    def run(each: str, number: int) -> Result | process.Failure:
        seeded = dataclasses.replace(row.work, seed=seeds[number - 1])
        return _run(each, seeded, flags)

    played = duel.play(probed.row, flags.pairs, run)
    results.append(path, started, lines(name, row, probed, played, seeds))
    return bool(played.failures)


def _run(name: str, work: Work, flags: Command) -> Result | process.Failure:
    pythons = {
        "peers": flags.peer_python,
        "tf_agents": flags.tf_agents_python,
        "batch_ppo": flags.batch_ppo_python,
        "sample_factory": flags.sample_factory_python,
    }
    return process.run_contender(name, work, flags.deadline_seconds, pythons)


if __name__ == "__main__":
    command.run(Command, main)
