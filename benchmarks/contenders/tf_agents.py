"""TF-Agents' PPOClipAgent, with one gradient step per epoch on the whole rollout.

It has its own interpreter, with the releases of TensorFlow and NumPy that it needs. It
steps the same Gymnasium environments as all contenders, behind TF-Agents' interface.
"""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np

from benchmarks.inside import session
from benchmarks.work.works import Training, last_mean, versions

LAST = 2  # the step type of an episode's last observation

DIFFERS = {
    "gradient_steps_an_iteration": "one an epoch: its loss takes a whole rollout",
    "samples_a_gradient_step": "the rollout, restart rows and last steps masked",
    "advantages": "it standardises them once, before the epochs",
    "versions": "its TensorFlow needs an older NumPy",
}


def load(**_: Any) -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tf_agents.agents.ppo.ppo_clip_agent
    import tf_agents.drivers.dynamic_step_driver
    import tf_agents.environments.tf_py_environment
    import tf_agents.replay_buffers.tf_uniform_replay_buffer  # noqa: F401


class Agent:
    """Agent of TF-Agents; a block is one collection and one call of ``train``.

    Args:
      work: what to train on.
      threads: threads of TensorFlow's pools; None for its default.
    """

    differs = DIFFERS

    def __init__(self, work: Training, threads: int | None = None):
        import tensorflow as tf
        from tf_agents.drivers import dynamic_step_driver
        from tf_agents.environments import tf_py_environment
        from tf_agents.replay_buffers import tf_uniform_replay_buffer

        if threads is not None:  # before TensorFlow creates its pools
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(threads)
        tf.random.set_seed(work.seed)
        self._work = work
        env = tf_py_environment.TFPyEnvironment(_batched(work))
        self.close = env.close
        self._agent = agent = _agent(work, env)
        self._buffer = tf_uniform_replay_buffer.TFUniformReplayBuffer(
            agent.collect_data_spec, work.num_envs, max_length=2 * work.rollout_length
        )
        self._returns: list[float] = []
        self._sums = np.zeros(work.num_envs)
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
            "driver": "DynamicStepDriver, TFUniformReplayBuffer",
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

    @property
    def returns(self) -> float | None:
        return last_mean(self._returns)

    def block(self) -> int:
        self._collect()
        reward, step_type, next_step_type = (x.numpy() for x in self._train())
        self._buffer.clear()
        self._iterations += 1
        restart, last = step_type == LAST, next_step_type == LAST
        self._returns += finished(self._sums, reward, restart, last)
        self._samples = max(self._samples, int((~restart[:, :-1]).sum()))
        return int((~restart).sum())

    def _gather_and_train(self) -> tuple[Any, ...]:
        # The length of a rollout varies, so it is gathered here, within the program.
        experience = self._buffer.gather_all()
        self._agent.train(experience)
        return experience.reward, experience.step_type, experience.next_step_type


def finished(
    sums: np.ndarray, reward: np.ndarray, restart: np.ndarray, last: np.ndarray
) -> list[float]:
    """Compute the returns of the episodes that ended in a rollout, in order.

    Args:
      sums: ``[B]``, rewards of unfinished episodes so far; changed in place.
      reward: ``[B, frames]``.
      restart: ``[B, frames]``, whether a frame is a restart row, without a reward.
      last: ``[B, frames]``, whether the next observation is an episode's last.
    """
    returns: list[float] = []
    reward = np.where(restart, 0.0, reward)
    for column, over in zip(reward.T, (last & ~restart).T, strict=True):
        sums += column
        returns += sums[over].tolist()
        sums[over] = 0.0
    return returns


def _agent(work: Training, env: Any) -> Any:
    import tensorflow as tf
    from tf_agents.agents.ppo import ppo_clip_agent
    from tf_agents.networks import actor_distribution_network, value_network

    observations, layers = env.observation_spec(), tuple(work.hidden)
    agent = ppo_clip_agent.PPOClipAgent(
        env.time_step_spec(),
        env.action_spec(),
        optimizer=tf.keras.optimizers.legacy.Adam(
            work.learning_rate, epsilon=work.adam_epsilon
        ),
        actor_net=actor_distribution_network.ActorDistributionNetwork(
            observations,
            env.action_spec(),
            fc_layer_params=layers,
            activation_fn=tf.nn.tanh,
        ),
        value_net=value_network.ValueNetwork(
            observations, fc_layer_params=layers, activation_fn=tf.nn.tanh
        ),
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


def _batched(work: Training) -> Any:
    """Return environments that one thread steps in turn.

    A process for each environment was half as fast.
    """
    from tf_agents.environments import batched_py_environment

    envs = [_adapted(work, row) for row in range(work.num_envs)]
    return batched_py_environment.BatchedPyEnvironment(envs, multithreading=False)


def _adapted(work: Training, row: int) -> Any:
    """Return an environment of the work with TF-Agents' interface."""
    from tf_agents.environments import py_environment
    from tf_agents.specs import array_spec
    from tf_agents.trajectories import time_step

    def spec(space: gymnasium.Space) -> Any:
        if isinstance(space, gymnasium.spaces.Discrete):
            first = int(space.start)
            return array_spec.BoundedArraySpec(
                (), np.int64, first, first + int(space.n) - 1
            )
        return array_spec.BoundedArraySpec(
            space.shape, np.float32, space.low, space.high
        )

    env = work.constructor()()

    class Adapted(py_environment.PyEnvironment):
        def __init__(self):
            super().__init__(handle_auto_reset=True)
            self._seed = work.seed + row  # of its first episode
            self._specs = spec(env.observation_space), spec(env.action_space)

        def observation_spec(self):
            return self._specs[0]

        def action_spec(self):
            return self._specs[1]

        def _reset(self):
            observation, _ = env.reset(seed=self._seed)
            self._seed = None
            return time_step.restart(np.asarray(observation, np.float32))

        def _step(self, action):
            observation, reward, terminated, truncated, _ = env.step(action)
            kind = time_step.truncation if truncated else time_step.transition
            kind = time_step.termination if terminated else kind
            return kind(np.asarray(observation, np.float32), reward)

        def close(self):
            env.close()

    return Adapted()


if __name__ == "__main__":
    session.main(load, Agent, Training)
