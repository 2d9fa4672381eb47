"""Environments that are stepped with NumPy arrays, on both backends."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_batch import spaces
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.shared.step_batch import StepBatch


class Stepped:
    """``ProcessEnv`` whose ``reset`` and ``step`` return failures, and raise none.

    On the native backend they are eager operations.
    """

    def __init__(self, env: ProcessEnv):
        self._env = env
        if env.hub is None:
            self.reset, self.step = env.engine.reset, env.engine.step
        self._token = tf.constant(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    @property
    def ok(self) -> bool:
        return self._env.engine.ok

    def reset(self, seed: int) -> StepBatch:
        return self._batch(self._env._calls.init(tf.constant(seed)))

    def step(self, action: list[np.ndarray]) -> StepBatch:
        inputs = [self._token, *map(tf.constant, action)]
        return self._batch(self._env._calls.step(inputs))

    def steps(self, count: int = 1, action: int = 0) -> StepBatch:
        """Step ``count`` times with the same discrete action; return the last batch."""
        for _ in range(count):
            batch = self.step([np.full(self.spec.num_envs, action, np.int32)])
        return batch

    def _batch(self, outputs: list[tf.Tensor]) -> StepBatch:
        self._token, *arrays = outputs
        arrays = [np.array(array) for array in arrays]
        count = len(spaces.leaves(self.spec.observation_space))
        info = dict(zip(self.spec.info, arrays[count + 4 :], strict=True))
        return StepBatch(arrays[:count], *arrays[count : count + 4], info)
