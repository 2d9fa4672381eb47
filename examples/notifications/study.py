"""Five agents, each from 20,000 logged users: true values, and what the log said.

    python -m examples.notifications.study

The optimum is 1.168, and the policy that was logged has 0.629. It writes to logs/study.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys

import tfagents_batch as tfb
from examples.notifications import dynamics, simulator, truth
from tfagents_batch.offline.writer import RowLogger

ENOUGH = 1.10  # 94 % of the optimum


def main() -> None:
    """Print a line for each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--folder", type=pathlib.Path, default="logs/study")
    given = parser.parse_args()
    print(f"logged {dynamics.value(dynamics.logger()):.4f}")
    print(f"optimal {dynamics.value(dynamics.optimal()):.4f}")
    values = []
    for seed in range(1, given.seeds + 1):
        folder = given.folder / str(seed)
        run = learn(folder, seed, given.users, given.steps)
        values.append(truth.value(tfb.load(run)))
        print(f"seed {seed}: {values[-1]:.4f}", flush=True)
    reached = sum(value >= ENOUGH for value in values)
    print(f"{reached} of {len(values)} reach {ENOUGH}")


def learn(folder: pathlib.Path, seed: int, users: int, steps: int) -> str:
    """Log users, and train an agent from the log; return the folder of its run."""
    rows, table, features = folder / "rows", folder / "table", folder / "features.json"
    with RowLogger(rows) as logger:
        policy = simulator.logging_policy(seed)
        simulator.play(
            policy, users, seed, lambda decided: logger.log(*simulator.rows(decided))
        )
    command("features", f"--input={rows}", f"--output={features}")
    gamma = f"--gamma={dynamics.GAMMA}"
    into = f"--output={table}", f"--features={features}"
    command("timeline", f"--input={rows}", gamma, *into)
    settings = f"--algorithm.gamma={dynamics.GAMMA}", "--algorithm.target=max"
    run = f"--steps={steps}", f"--seed={seed}", f"--logdir={folder}"
    return command("train", f"--data={table}", *settings, *run)


def command(name: str, *flags: str) -> str:
    """Run a command of the library; return the last line that it prints."""
    called = sys.executable, "-m", "tfagents_batch", name, *flags
    done = subprocess.run(called, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()[-1]


if __name__ == "__main__":
    main()
