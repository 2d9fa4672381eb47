"""Costs of our own code, such as memory: ``python -m benchmarks.costs``."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.inside.grown import Growing
from benchmarks.inside.replayed import Replaying
from benchmarks.inside.workers import Workers
from benchmarks.measure import command, process, ratios, results, rows, tables
from benchmarks.measure.process import Failure, Result
from benchmarks.work import machine
from tfagents_batch.config import option


class Figure(NamedTuple):
    """A figure: its title in tables, its unit, and its maximum as goal."""

    title: str  # names fields of the work
    unit: str
    goal: float | None = None


class Cost(NamedTuple):
    """Figures that a new process measures."""

    file: str  # name of the results
    module: str  # of ``benchmarks.inside``
    work: Any
    figures: dict[str, Figure]  # by their names in the module's result


def _replay(
    compiled: bool, prioritized: bool, place: str, goal: float | None = None
) -> Cost:
    """Return the costs of a replay in a program.

    DQN on Atari runs with frames in a graph, with a thread per core. With a small
    network, as for priorities, one thread is our default.
    """
    sample = "sample {batch_size} of {capacity:,}"
    if prioritized:
        work = Replaying(compiled, prioritized)
        figures = {
            "sample_us": Figure(
                f"{sample} by priority, {place}, and set theirs", "µs", 100
            ),
            "write_us": Figure(f"write {{num_envs}} with priorities, {place}", "µs"),
        }
    else:
        work = Replaying(compiled, prioritized, threads=machine.cores())
        end = f"stacks of frames, {place}"
        figures = {
            "both_us": Figure(f"write {{num_envs}} and {sample} {end}", "µs", goal),
            "write_us": Figure(f"write {{num_envs}} {end}", "µs"),
            "sample_us": Figure(f"{sample} {end}", "µs"),
            "memory_gb": Figure(f"memory of {{capacity:,}} {end}", "GB", 8),
        }
    return Cost("replay", "replayed", work, figures)


def _size(env: str, num_envs: int) -> Cost:
    """Return the costs of training with a number of environments."""
    fixed = {"epochs": 4, "minibatch_size": 32 * num_envs}
    work = Growing(
        {
            "env": env,
            "num_envs": num_envs,
            "rollout": {"length": 128},
            "settings": fixed,
        },
        seconds=5.0,
    )
    what = f"{num_envs} {env}"
    figures = {
        "env_steps_per_second": Figure(f"training, {what}", "env steps/s"),
        "learner_rss_mib": Figure(f"resident memory of the learner, {what}", "MiB"),
    }
    return Cost("growth", "grown", work, figures)


def _long(steps: int) -> Cost:
    """Return the growth of costs during a long run of the preset ``cartpole``."""
    what = f"{steps:,} steps, last quarter to second quarter"
    figures = {
        "memory_ratio": Figure(f"resident memory of the learner, {what}", "", 1.02),
        "step_seconds_ratio": Figure(f"time per step, {what}", "", 1.02),
    }
    return Cost(
        "growth", "grown", Growing({"config": "cartpole", "steps": steps}), figures
    )


_GRAPH, _COMPILED = "a graph with compiled parts", "one compiled loop"
ROWS = {
    "frames-graph": _replay(False, False, _GRAPH, 150),
    "frames-compiled": _replay(True, False, _COMPILED),
    "priority-graph": _replay(False, True, _GRAPH),
    "priority-compiled": _replay(True, True, _COMPILED),
    "workers": Cost(
        "workers",
        "workers",
        Workers(),
        {
            "worker_rss_mib": Figure("resident memory of a {env} worker", "MiB", 60),
            "worker_pss_mib": Figure("the same, shared pages by their share", "MiB"),
            "ready_seconds": Figure("until {num_workers} workers are ready", "s", 1.5),
            "close_seconds": Figure("`close` of {num_workers} idle workers", "s", 2),
        },
    ),
    **{f"envs-{count}": _size("CartPole-v1", count) for count in (1, 8, 32, 128, 256)},
    **{f"tf-envs-{x}": _size("tf/CartPole-v1", x) for x in (256, 1024, 4096)},
    **{f"steps-{steps}": _long(steps) for steps in (1_000_000, 8_000_000)},
}


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    row: tuple[str, ...] = option((), "rows to measure, such as envs-*; all by default")
    repeats: int = option(3, "number of new processes for each row", least=1)
    deadline_seconds: float = option(900.0, "time limit of one process", above=0)
    folder: str = option(str(results.FOLDER), "folder of the files to append to")


def main(flags: Command) -> int:
    """Measure the rows, append the results to their files, and print tables."""
    chosen = rows.select(flags.row, ROWS)
    started, folder = results.context(), pathlib.Path(flags.folder)

    def run(name: str, number: int) -> Result | Failure:
        module, work = f"benchmarks.inside.{chosen[name].module}", chosen[name].work
        result = process.run(module, work, flags.deadline_seconds)
        if not isinstance(result, Failure):
            process.report(f"{name}, {number} of {flags.repeats}: {result}")
        return result

    played = process.alternate([*chosen], flags.repeats, run)
    paths = {name: folder / f"{cost.file}.jsonl" for name, cost in chosen.items()}
    for name, cost in chosen.items():
        if name not in played.failures:
            measured = lines(name, cost, played.results[name])
            results.append(paths[name], started, measured)
    for path in dict.fromkeys(paths.values()):
        print(tables.costs(results.read(path)))
    return 1 if played.failures else 0


def lines(name: str, cost: Cost, measured: Sequence[Result]) -> list[Result]:
    """Return one line for each figure, with its median over processes."""
    config = dataclasses.asdict(cost.work)
    recorded = []
    for key, figure in cost.figures.items():
        values = [result[key] for result in measured]
        recorded.append(
            {
                "row": name,
                "figure": key,
                **figure._asdict(),
                "title": figure.title.format(**config),
                "value": ratios.median(values).median,
                "values": values,
                "config": config,
                "versions": measured[0]["versions"],
            }
        )
    return recorded


if __name__ == "__main__":
    command.run(Command, main)
