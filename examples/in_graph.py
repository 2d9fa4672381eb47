"""An environment written in TensorFlow: it is a part of the compiled program.

A drone holds its height in gusts of wind, 256 at a time. Run:
python examples/in_graph.py
"""

import gymnasium
import tensorflow as tf

import tfagents_batch as tfb
from tfagents_batch import seeds


class Hover:
    """One environment, without a batch axis; all that changes is in the state."""

    observation_space = gymnasium.spaces.Box(-5.0, 5.0, (2,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    max_episode_steps = 100

    def reset(self, key):
        state = seeds.uniform([2], key, -1.0, 1.0)
        return state, state  # the state, and what is observed

    def step(self, state, action, key):
        height, speed = tf.unstack(state)
        speed = 0.9 * speed + 0.2 * action[0] + 0.1 * seeds.normal([], key)
        height = height + 0.1 * speed
        state = tf.clip_by_value(tf.stack([height, speed]), -5.0, 5.0)
        return state, state, -tf.abs(height), tf.abs(height) > 4.0


if __name__ == "__main__":
    rollout = {"length": 32}
    settings = {"minibatch_size": 1024, "epochs": 4, "learning_rate": 1e-3}
    options = {"num_envs": 256, "rollout": rollout, "settings": settings}
    run = tfb.train("ppo", env=Hover, steps=2_000_000, **options)
    print(f"{run.metrics['time/env_steps_per_second']:,.0f} steps per second")
    print("mean return:", tfb.evaluate(run.logdir, episodes=100, env=Hover).mean_return)
