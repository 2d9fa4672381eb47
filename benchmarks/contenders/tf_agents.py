"""TF-Agents' PPOClipAgent, with one gradient step per epoch on the whole rollout.

It steps the same Gymnasium environments as all contenders, behind its own interface.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from benchmarks.inside import session
from benchmarks.work.works import Training, versions

LAST = 2  # the step type of an episode's last observation

DIFFERS = {
    "gradient_steps_an_iteration": "one an epoch: its loss takes a whole rollout",
    "samples_a_gradient_step": "the rollout, restart rows and last steps masked",
    "advantages": "it standardises them once, before the epochs",
    "versions": "its TensorFlow needs an older NumPy",
}


class Agent:
    """Agent of TF-Agents; a block is one collection and one call of ``train``."""

    differs = DIFFERS

    def __init__(self, work: Training, threads: int | None = None):
        import tensorflow as tf
        from tf_agents.drivers import dynamic_step_driver
        from tf_agents.environments import batched_py_environment, tf_py_environment
        from tf_agents.replay_buffers import tf_uniform_replay_buffer

        if threads is not None:  # before TensorFlow creates its pools
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(threads)
        tf.random.set_seed(work.seed)
        self._work, self.episodes = work, []
        # One thread steps them in turn; a process for each was half as fast.
        envs = [_adapted(work, row, self.episodes) for row in range(work.num_envs)]
        batch = batched_py_environment.BatchedPyEnvironment(envs, multithreading=False)
        env = tf_py_environment.TFPyEnvironment(batch)
        self.close = env.close
        self._agent = agent = _agent(work, env)
        self._buffer = tf_uniform_replay_buffer.TFUniformReplayBuffer(
            agent.collect_data_spec, work.num_envs, max_length=2 * work.rollout_length
        )
        driver = dynamic_step_driver.DynamicStepDriver(
            env,
            agent.collect_policy,
            observers=[self._buffer.add_batch],
            num_steps=work.batch,
        )
        self._collect = tf.function(driver.run)
        self._train = tf.function(self._gather_and_train)
        self._iterations = 0
        self._samples = 0
        self.own = {
            "workers": 0,
            "threads": threads or "TensorFlow's default",
            "autoreset": "next step; restart rows are masked",
            "cut off": "the value after a time limit is taken to be 0",
        }
        self.versions = versions("tf-agents", "tensorflow-cpu", "gymnasium")

    @property
    def same(self) -> dict[str, Any]:
        agent, work = self._agent, self._work
        values = agent._value_net  # it has no public attribute for it
        weights = agent.actor_net.trainable_weights + values.weights
        steps = int(agent.train_step_counter.numpy()) // self._iterations
        count = sum(int(np.prod(weight.shape)) for weight in weights)
        return work.same(count, steps, self._samples) | {
            "advantages": "standardised over the rollout"
        }

    def block(self) -> int:
        self._collect()
        restart = self._train().numpy() == LAST
        self._buffer.clear()
        self._iterations += 1
        self._samples = max(self._samples, int((~restart[:, :-1]).sum()))
        return int((~restart).sum())

    def _gather_and_train(self) -> Any:
        # The length of a rollout varies, so it is gathered here, within the program.
        experience = self._buffer.gather_all()
        self._agent.train(experience)
        return experience.step_type


def _agent(work: Training, env: Any) -> Any:
    import tensorflow as tf
    from tf_agents.agents.ppo import ppo_clip_agent
    from tf_agents.networks import actor_distribution_network, value_network

    observations = env.observation_spec()
    layers = {"fc_layer_params": tuple(work.hidden), "activation_fn": tf.nn.tanh}
    agent = ppo_clip_agent.PPOClipAgent(
        env.time_step_spec(),
        env.action_spec(),
        optimizer=tf.keras.optimizers.legacy.Adam(
            work.learning_rate, epsilon=work.adam_epsilon
        ),
        actor_net=actor_distribution_network.ActorDistributionNetwork(
            observations, env.action_spec(), **layers
        ),
        value_net=value_network.ValueNetwork(observations, **layers),
        importance_ratio_clipping=work.clip_ratio,
        lambda_value=work.gae_lambda,
        discount_factor=work.gamma,
        entropy_regularization=work.entropy_scale,
        value_pred_loss_coef=work.value_scale,
        num_epochs=work.epochs,
        use_gae=True,
        use_td_lambda_return=True,
        normalize_rewards=False,
        normalize_observations=False,
        gradient_clipping=work.gradient_norm,
        train_step_counter=tf.Variable(0, dtype=tf.int64),
    )
    agent.initialize()
    return agent


def _adapted(work: Training, row: int, returns: list[float]) -> Any:
    """Return an environment with TF-Agents' interface that appends its returns."""
    from tf_agents.environments import py_environment
    from tf_agents.specs import array_spec
    from tf_agents.trajectories import time_step

    def spec(space: gymnasium.Space) -> Any:
        if isinstance(space, gymnasium.spaces.Discrete):
            first = int(space.start)
            last = first + int(space.n) - 1
            return array_spec.BoundedArraySpec((), np.int64, first, last)
        bounds = space.low, space.high
        return array_spec.BoundedArraySpec(space.shape, np.float32, *bounds)

    env = work.constructor()()
    specs = spec(env.observation_space), spec(env.action_space)

    class Adapted(py_environment.PyEnvironment):
        def __init__(self):
            super().__init__(handle_auto_reset=True)
            self._seed = work.seed + row  # of its first episode

        def observation_spec(self):
            return specs[0]

        def action_spec(self):
            return specs[1]

        def _reset(self):
            observation, _ = env.reset(seed=self._seed)
            self._seed, self._return = None, 0.0
            return time_step.restart(np.asarray(observation, np.float32))

        def _step(self, action):
            observation, reward, terminated, truncated, _ = env.step(action)
            self._return += float(reward)
            if terminated or truncated:
                returns.append(self._return)
            kind = time_step.truncation if truncated else time_step.transition
            kind = time_step.termination if terminated else kind
            return kind(np.asarray(observation, np.float32), reward)

        def close(self):
            env.close()

    return Adapted()


if __name__ == "__main__":
    session.main(Agent, "tf_agents.agents.ppo.ppo_clip_agent")
