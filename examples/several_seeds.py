"""Several seeds: one run says little about an algorithm.

Starts one ``train`` command for each seed, and prints the return of every seed, their
mean and its 95 % confidence interval. Run: python examples/several_seeds.py
"""

import json
import pathlib
import subprocess
import sys

import numpy as np

SEEDS = (1, 2, 3, 4, 5)
T_95 = 2.776  # quantile of Student's t for 5 seeds, so 4 degrees of freedom


def train(seed, rate):
    """Train in a process of its own; return the mean return at the end."""
    command = [sys.executable, "-m", "tfagents_batch", "train", "--quiet"]
    command += ["--env=tf/CartPole-v1"]
    command += ["--steps=50000", "--eval_every=0", f"--seed={seed}"]
    command += [f"--algorithm.learning_rate={rate}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    folder = pathlib.Path(done.stdout.splitlines()[-1])
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [x["episode/return_mean"] for x in lines if "episode/return_mean" in x][-1]


def row(first, cells):
    return f"{first:>13}" + "".join(f"{cell:>8}" for cell in cells)


if __name__ == "__main__":
    print(row("learning rate", [f"seed {seed}" for seed in SEEDS]), " mean")
    for rate in (3e-4, 3e-3):
        returns = np.array([train(seed, rate) for seed in SEEDS])
        half = T_95 * returns.std(ddof=1) / np.sqrt(len(SEEDS))
        cells = [f"{value:.0f}" for value in returns]
        print(row(rate, cells), f" {returns.mean():.0f} +- {half:.0f}", flush=True)
