"""REINFORCE on Spark: every update learns from 15 episodes that tasks of Spark play.

Prints the mean return of each update, until all 15 episodes are perfect. Needs the
extra spark and Java 17. Run: python examples/reinforce_on_spark.py

It starts Spark on this machine. With spark-submit --master=<address>, it uses the
session of that cluster.
"""

import tfagents_batch as tfb

PERFECT = 498  # steps, after which an episode ends


def report(info):
    """Print the mean return, and say whether to go on."""
    mean = info.metrics["episode/return_mean"]
    jobs = info.metrics["pool/jobs"]
    print(f"{info.step} steps, {jobs:.0f} jobs, mean return {mean:.1f}")
    return mean < PERFECT


if __name__ == "__main__":
    run = tfb.train(
        config="deck/distributed-reinforce-cartpole",
        eval_every=0,
        progress=False,
        on_iteration=report,
    )
    print(tfb.evaluate(run.logdir, episodes=20).mean_return)
