"""The loop by hand: environments, a source, an algorithm, and one compiled function.

``tfb.train`` does the same, and logs, evaluates and saves. Run:
python examples/loop_by_hand.py
"""

import tensorflow as tf

import tfagents_batch as tfb
from tfagents_batch.algorithms import ppo
from tfagents_batch.sources import rollout

ITERATIONS = 40

if __name__ == "__main__":
    with tfb.make_env("CartPole-v1", num_envs=8) as env:
        agent = ppo.PPO(ppo.PPOConfig(epochs=4), env.spec)
        source = rollout.Rollout(env, agent.policy, length=128, seed=1)
        step = tf.Variable(0, dtype=tf.int64)  # environment steps so far

        @tfb.function(jit_compile=True)  # without a C++ compiler: leave out jit_compile
        def iterate(seed):
            collected = source.collect(seed, step)
            step.assign_add(collected.steps)
            trajectory = source.sample(collected, seed, step)
            updated = agent.update(trajectory, seed, step)
            steps, last = trajectory.steps, tf.cast(trajectory.steps.last, tf.float32)
            total = tf.reduce_sum(steps.info["episode_return"] * last)
            return updated.metrics["policy/entropy"], total / tf.reduce_sum(last)

        for iteration in range(ITERATIONS):
            entropy, mean_return = iterate(tf.constant(iteration))
            if iteration % 10 == 9:
                print(int(step), float(entropy), float(mean_return))
