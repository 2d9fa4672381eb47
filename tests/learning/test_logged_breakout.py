"""CQL on rows of a half-trained DQN in MinAtar's Breakout."""

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.offline import timelines
from tfagents_batch import seeds
from tfagents_batch.offline import table_reader
from tfagents_batch.offline.writer import RowLogger
from tfagents_batch.types import TimeStep

ENV, NUM = "tf/MinAtar/Breakout-v1", 64
NOW = tf.constant(10**6, tf.int64)  # after the schedule of exploration
ENDS = "terminated", "truncated"


def collect(policy, folder, total):
    """Log rows whose features are the pixels that are not 0; return the returns."""
    env, rows, returns = tfb.make_env(ENV, NUM), 0, []
    actions = [str(x) for x in range(env.spec.action_space.n)]

    @tf.function(autograph=False)
    def move(state, step, k):
        chance = policy.probabilities(step, (), NOW)
        drawn = seeds.uniform([NUM, 1], seeds.key(k, "actions"))
        action = tf.reduce_sum(tf.cast(drawn > tf.cumsum(chance, 1), tf.int32), 1)
        action = tf.minimum(action, len(actions) - 1)
        return *env.step(state, action), action, tf.gather(chance, action, batch_dims=1)

    state, step = env.init(1)
    episode, number = np.arange(NUM), np.zeros(NUM, int)
    with RowLogger(folder) as logger:
        while rows < total:
            now = step
            state, step, action, chance = move(state, now, tf.constant(rows))
            pixels = now.observation.numpy().reshape(NUM, -1)
            made = []
            for i in np.flatnonzero(~now.last):
                row = {
                    "ds": "2026-01-01",
                    "mdp_id": f"e{episode[i]}",
                    "sequence_number": int(number[i]),
                    "state_features": dict.fromkeys(
                        np.flatnonzero(pixels[i]).tolist(), 1.0
                    ),
                    "action": actions[action[i]],
                    "action_probability": float(chance[i]),
                    "reward": float(step.reward[i]),
                    "possible_actions": actions,
                }
                made.append(row | {x: bool(getattr(step, x)[i]) for x in ENDS})
            logger.log(*made)
            rows += len(made)
            ended = (step.last & ~now.last).numpy()
            returns += step.info["episode_return"].numpy()[ended].tolist()
            number = np.where(now.last, 0, number + 1)
            episode = np.where(now.last, episode + NUM, episode)
    return np.mean(returns)


def play(policy, features):
    """Return the mean return of an agent of pixels with these numbers."""
    env = tfb.make_env(ENV, NUM)

    @tf.function(autograph=False)
    def move(state, step):
        pixels = tf.reshape(tf.cast(step.observation, tf.float32), [NUM, -1])
        seen = step._replace(observation=tf.gather(pixels, features, axis=1), info={})
        return env.step(state, policy.decide(TimeStep(*seen), (), NOW).action)

    state, step = env.init(2)
    returns = np.full(NUM, np.nan)
    while np.isnan(returns).any():
        state, step = move(state, step)
        ended = np.isnan(returns) & step.last.numpy()
        returns[ended] = step.info["episode_return"].numpy()[ended]
    return returns.mean()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_cql_is_better_than_the_policy_that_was_logged(tmp_path):
    half = tfb.train(
        config="dqn/breakout-minatar",
        steps=150_000,
        seed=1,
        settings={"train_every": 4, "histograms": False},
        eval_every=0,
        logdir=tmp_path,
    )
    logged = collect(tfb.load(half.logdir)._policy, tmp_path / "rows", 200_000)
    table = timelines.build(tmp_path / "table", tmp_path / "rows")
    run = tfb.train_offline(
        data=table,
        steps=20_000,
        seed=1,
        settings={"cql_scale": 1.0, "learning_rate": "linear(1e-3, 0)"},
        logdir=tmp_path,
    )
    features = [int(x) for x in table_reader.partition(table).schema.features]
    found = play(tfb.load(run.logdir, checkpoint="best")._policy, features)
    assert found > logged
