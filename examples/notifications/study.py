"""Five agents, each from 20,000 logged users: what the log says, and what is true.

    python -m examples.notifications.study

The first log also judges three policies without training. Files are in logs/study.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys

import numpy as np

import tfagents_batch as tfb
from examples.notifications import dynamics, simulator, truth
from tfagents_batch.evaluation import rules
from tfagents_batch.offline.writer import RowLogger

ENOUGH = 1.10  # 94 % of the optimum


def main() -> None:
    """Print a line for each policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--folder", type=pathlib.Path, default="logs/study")
    given = parser.parse_args()
    print(f"the optimum is {dynamics.value(dynamics.optimal()):.4f}")
    values = []
    for seed in range(1, given.seeds + 1):
        folder = given.folder / str(seed)
        log(folder, seed, given.users)
        if seed == 1:
            judge_others(folder)
        run = train(folder, seed, given.steps)
        values.append(truth.value(tfb.load(run)))
        judge(f"agent of seed {seed}", run, folder, values[-1])
    reached = sum(value >= ENOUGH for value in values)
    print(f"{reached} of {len(values)} agents reach {ENOUGH:.2f}")


def log(folder: pathlib.Path, seed: int, users: int) -> None:
    """Log users, and make a timeline of the rows."""
    rows, features = folder / "rows", folder / "features.json"
    with RowLogger(rows) as logger:
        simulator.play(
            *(simulator.logging_policy(seed), users, seed),
            lambda decided: logger.log(*simulator.rows(decided)),
        )
    command("features", f"--input={rows}", f"--output={features}")
    settings = f"--gamma={dynamics.GAMMA}", f"--features={features}"
    table = f"--output={folder / 'table'}"
    command("timeline", f"--input={rows}", table, *settings)


def train(folder: pathlib.Path, seed: int, steps: int) -> str:
    """Train an agent from the timeline; return the folder of its run."""
    settings = f"--algorithm.gamma={dynamics.GAMMA}", "--algorithm.target=max"
    run = f"--steps={steps}", f"--seed={seed}", f"--logdir={folder}"
    return command("train", f"--data={folder / 'table'}", *settings, *run)


def command(name: str, *flags: str) -> str:
    """Run a command of the library; return the last line that it prints."""
    called = sys.executable, "-m", "tfagents_batch", name, *flags
    done = subprocess.run(called, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()[-1]


def judge(name: str, policy, folder: pathlib.Path, true: float) -> None:
    """Estimate a policy from the rows that were not used for training."""
    found = tfb.evaluate_offline(policy, folder / "table")
    decision = rules.decide(found, rules.DeployRules())
    estimate = found.estimates[decision.estimator]["reward"].value
    interval = f"{estimate.low:.3f} to {estimate.high:.3f}"
    said = f"{decision.estimator} {estimate.value:.3f}, {interval}"
    print(f"{name:20} true {true:.4f}; {said}; {decision.verdict}", flush=True)


def judge_others(folder: pathlib.Path) -> None:
    """Judge the logging policy, and policies that must not be deployed."""
    sending = {
        "logging policy": lambda s: dynamics.logging_probability(s[:, 1].astype(float)),
        "always send": lambda states: np.ones(len(states)),
        "uniform": lambda states: np.full(len(states), 0.5),
    }
    true = dynamics.logger(), np.ones(dynamics.SHAPE), np.full(dynamics.SHAPE, 0.5)
    for (name, send), core in zip(sending.items(), true, strict=True):

        def probabilities(states, possible, send=send):
            return np.stack([1 - send(states), send(states)], -1)

        judge(name, probabilities, folder, dynamics.value(core))


if __name__ == "__main__":
    main()
