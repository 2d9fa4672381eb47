"""Your own data: log decisions, learn from them, go on in the environment.

The data are of a clumsy CartPole player. Needs the extra "offline". Run:
python examples/own_data.py
"""

import gymnasium
import numpy as np

import tfagents_batch as tfb
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.timeline import TimelineConfig, build
from tfagents_batch.offline.writer import RowLogger

EPISODES = 300


def log(folder):
    env, random = gymnasium.make("CartPole-v1"), np.random.default_rng(0)
    with RowLogger(folder) as logger:
        for episode in range(EPISODES):
            (seen, _), step, over = env.reset(seed=episode), 0, False
            while not over:
                good = int(seen[2] + seen[3] > 0)
                action = good if random.random() < 0.8 else 1 - good
                row = {"ds": "2026-01-01", "mdp_id": str(episode)}
                row |= {"sequence_number": step, "state_features": seen}
                row |= {"action": str(action), "reward": 1.0}
                row |= {"possible_actions": ["0", "1"]}
                row |= {"action_probability": 0.8 if action == good else 0.2}
                seen, _, terminated, truncated, _ = env.step(action)
                over, step = terminated or truncated, step + 1
                logger.log(row | {"terminated": terminated, "truncated": truncated})


if __name__ == "__main__":
    log("rows")
    with open_rows("rows") as rows:
        print(build(rows, rows.find_schema(), TimelineConfig(), "table").text())
    run = tfb.train_offline(
        "dqn",
        data="table",
        steps=10_000,
        settings={"target": "sarsa", "learning_rate": 1e-3},
    )
    logged = run.evaluate(env="CartPole-v1").mean_return
    run = tfb.train("dqn", env="CartPole-v1", init_from=run.logdir, steps=20_000)
    print("from data:", logged, "after more steps:", run.evaluate().mean_return)
