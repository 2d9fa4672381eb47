"""Returns after equal gradient steps: ``python -m benchmarks.offline_returns``.

Ours have the settings of our presets, d3rlpy's its defaults, both the same network and
batch. They play episodes with the same first states.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import statistics
import tempfile
from typing import Literal

from benchmarks.inside import logged_arrays
from benchmarks.measure import command, logged, process
from benchmarks.measure.process import Failure, Result
from benchmarks.work.logged import D3RLPY, OURS, Logged, Name
from tfagents_batch.config import option
from tfagents_batch.errors import UserError


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    rows: str = option("", "timeline with --n_step=1, for d3rlpy")
    table: str = option("", "timeline for ours; empty: the same")
    env: str = option("CartPole-v1", "environment to play, in episodes of 200 steps")
    algorithms: tuple[Name, ...] = option(("dqn",), "algorithms to train")
    libraries: tuple[Literal["tfagents_batch", "d3rlpy"], ...] = option(
        (OURS, D3RLPY), "libraries to train"
    )
    steps: int = option(50_000, "gradient steps of each training", least=1)
    seeds: int = option(5, "trainings of each, with seeds from 1", least=1)
    episodes: int = option(50, "episodes to play", least=2)
    python: str = option("", "interpreter with d3rlpy; empty: that of the peers")


def main(flags: Command) -> int:
    """Train and play, and print a line for each library; 1 if something failed."""
    if not flags.rows:
        raise UserError("rows is empty; expected the folder of a timeline")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "rows.npz")
        logged_arrays.write(pathlib.Path(flags.rows), path)
        for name, library in itertools.product(flags.algorithms, flags.libraries):
            results = _trainings(name, library, str(path), flags)
            if isinstance(results, Failure):
                process.report(f"failed: {results}")
                return 1
            numbers = ", ".join(
                f"{x['mean_return']:.0f} ± {x['standard_error']:.0f}" for x in results
            )
            mean = statistics.fmean(x["mean_return"] for x in results)
            print(f"{name:8} {library:14} {numbers}; mean {mean:.0f}", flush=True)
    return 0


def _trainings(
    name: str, library: str, data: str, flags: Command
) -> list[Result] | Failure:
    """Train an algorithm of a library with each seed; return what it found."""
    table = flags.table or flags.rows
    work = Logged("returns", table, data, flags.steps, name, env=flags.env)
    work = dataclasses.replace(work, episodes=flags.episodes)
    results = []
    for seed in range(1, flags.seeds + 1):
        found = logged.run(library, dataclasses.replace(work, seed=seed), flags.python)
        if isinstance(found, Failure):
            return found
        results.append(found)
        process.report(f"{name} of {library}, seed {seed}: {found['mean_return']:.0f}")
    return results


if __name__ == "__main__":
    command.run(Command, main)
