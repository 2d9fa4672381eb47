"""A trained agent that acts in loops of one's own, outside of any graph."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import nest, seeds, spaces
from tfagents_batch.envs import make, registry
from tfagents_batch.envs.adapters.adapt import adapt, is_environment
from tfagents_batch.envs.wrappers import named
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Algorithm
from tfagents_batch.training.run_config import Config
from tfagents_batch.types import EnvSpec, Nest, TimeStep


class Agent:
    """Acts as a checkpoint of a run does; ``tfagents_batch.load`` makes it.

        agent = tfb.load("logs/<run>")
        env = agent.make_env(render_mode="human")
        observation, _ = env.reset()
        state, over = None, False
        while not over:
            action, state = agent.predict(observation, state)
            observation, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated

    Args:
      algorithm: trained.
      spec: of the environments, as the run's wrappers leave them.
      env: that ``make_env`` makes: a name or what makes one environment.
      config: of the run, or of where it is to be played.
      step: of the checkpoint.

    Attributes:
      observation_space, action_space: of one environment in the run's wrappers.
      config: as above.
      step: environment steps that it was trained for.
    """

    def __init__(
        self, algorithm: Algorithm, spec: EnvSpec, env: Any, config: Config, step: int
    ):
        self.observation_space = spec.observation_space
        self.action_space = spec.action_space
        self.config, self.step = config, step
        self._env = env
        self._algorithm = algorithm
        self._leaves = spaces.leaves(spec.observation_space)
        self._program = tf.function(self._choose, autograph=False)
        self._calls = 0

    def predict(
        self,
        observation: Any,
        state: Nest | None = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Any, Nest]:
        """Choose an action, or one for each observation of a batch.

        Observations are normalised as in training. Arguments and results are those of
        ``predict`` of Stable-Baselines3, but that the mode is the default.

        Args:
          observation: of ``observation_space``, or a batch: ``[N, ...]`` in every leaf.
          state: what the call before returned; None where all episodes begin. Networks
            without memory need none.
          episode_start: bool, or ``[N]``: an episode begins there, so that what is
            remembered of the one before is forgotten.
          deterministic: the policy's mode, else a sample.

        Returns:
          The action, of ``action_space`` (a Box's within its bounds), or ``[N, ...]``
          of them, and the state for the next call.

        Raises:
          UserError: if the observation does not fit, naming the part.
        """
        flat, size = self._rows(observation)
        batch = 1 if size is None else size
        if state is None:
            state = self._algorithm.initial_state(batch)
        start = np.zeros(batch, bool) if episode_start is None else episode_start
        start = np.broadcast_to(np.asarray(start, bool), (batch,))
        self._calls += 1
        seed = seeds.iteration_seed(self.config.seed, self._calls, "agent/actions")
        rows = spaces.pack(self.observation_space, map(tf.constant, flat))
        given = rows, tf.constant(start), state, tf.constant(seed)
        action, state = self._program(*given, explore=not deterministic)
        action, space = action.numpy(), self.action_space
        if isinstance(space, gs.Box):
            action = np.clip(action, space.low, space.high)
        action = action.astype(space.dtype)
        return (action[0] if size is None else action), state

    def make_env(self, **env_kwargs: Any) -> gymnasium.Env:
        """One environment like those of the run, in its wrappers, in this process.

        Args:
          **env_kwargs: beside, or instead of, those of the run; ``render_mode`` above
            all.

        Raises:
          UserError: if it is written in TensorFlow, or was passed as an object.
        """
        kwargs = {**self.config.env_kwargs, **env_kwargs}
        if make.tensor_env(self._env, self.config.env_kwargs) is not None:
            raise UserError(
                f"{registry.describe(self._env)} is written in TensorFlow, as a batch; "
                "pass it to tfagents_batch.make_env, or play it by "
                "tfagents_batch.evaluate"
            )
        if make.is_made(self._env):
            raise UserError(
                f"env is one {type(self._env).__name__}, made already; play in that one"
            )
        constructor = registry.constructor(self._env, kwargs)
        return adapt(named.wrapped(constructor, self.config.wrappers)())

    def _choose(self, observation, start, state, seed, explore: bool):
        """Action and next state of a batch."""
        algorithm, batch = self._algorithm, start.shape[0]
        still, reward = tf.zeros([batch], tf.bool), tf.zeros([batch])
        step = TimeStep(observation, reward, start, still, still, {})
        state = nest.where(start, algorithm.initial_state(batch), state)
        noise = nest.map(lambda x: x[0], algorithm.noise((1, batch), seed))
        action, _, state = algorithm.act(step, state, noise, explore)
        return action, state

    def _rows(self, observation: Any) -> tuple[list[np.ndarray], int | None]:
        """Leaves with a batch axis, and its size; None of a single observation."""
        try:
            parts = spaces.flatten(self.observation_space, observation)
        except (KeyError, IndexError, TypeError) as error:
            raise UserError(
                f"the observation is not nested as {self.observation_space} is: "
                f"{type(error).__name__}: {error}"
            ) from error
        rows, sizes = [], set()
        for leaf, part in zip(self._leaves, parts, strict=True):
            array = np.asarray(part)
            extra = array.ndim - len(leaf.shape)
            fits = extra in (0, 1) and array.shape[extra:] == leaf.shape
            if not fits or array.dtype.kind not in "biuf":
                raise UserError(
                    f"observation {leaf.name} is {array.dtype} {list(array.shape)}; "
                    f"expected {leaf.dtype} {list(leaf.shape)}, or a batch of that"
                )
            sizes.add(array.shape[0] if extra else None)
            rows.append(_cast(array, leaf).reshape(-1, *leaf.shape))
        if len(sizes) != 1:
            raise UserError(
                "parts of the observation are of different batches: "
                f"{sorted(map(str, sizes))}"
            )
        return rows, sizes.pop()


def _cast(array: np.ndarray, leaf: spaces.Leaf) -> np.ndarray:
    """To a leaf's dtype, if no number becomes another one."""
    wanted = np.dtype(leaf.dtype)
    found = array.astype(wanted)
    if wanted.kind in "iu" and not np.array_equal(found, array):
        raise UserError(
            f"observation {leaf.name} is {array.dtype} with values that {leaf.dtype} "
            "does not have; pass it as the environment gives it"
        )
    return found


def lend(env: Any) -> Any:
    """``env``, or what stands for one that is made already and does not close it."""
    if isinstance(env, gymnasium.vector.VectorEnv):
        return _LentBatch(env)
    return _Lent(adapt(env)) if is_environment(env) else env


class _Lent(gymnasium.Wrapper):
    def close(self) -> None:
        pass


class _LentBatch(gymnasium.vector.VectorWrapper):
    def close(self, **_) -> None:
        pass
