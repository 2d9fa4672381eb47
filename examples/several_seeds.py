"""Several seeds: one run says little about an algorithm.

All seeds train in one compiled program, because the environment is written in
TensorFlow. Prints the mean of the seeds and its 95 % confidence interval. Run:
python examples/several_seeds.py
"""

import numpy as np

import tfagents_batch as tfb

T_95 = 2.776  # quantile of Student's t for 5 seeds, so 4 degrees of freedom


def interval(values):
    """Return the mean and half of the width of its 95 % confidence interval."""
    values = np.asarray(values, float)
    return values.mean(), T_95 * values.std(ddof=1) / np.sqrt(len(values))


if __name__ == "__main__":
    found = {}
    for rate in (3e-4, 3e-3):
        runs = tfb.train_seeds(
            "ppo",
            env="tf/CartPole-v1",
            seeds=5,
            steps=50_000,
            eval_every=0,
            settings={"learning_rate": rate},
        )
        found[rate] = [run.metrics["episode/return_mean"] for run in runs]
    for rate, returns in found.items():
        mean, half = interval(returns)
        print(f"learning rate {rate}: {mean:.0f} +- {half:.0f}  {np.round(returns)}")
