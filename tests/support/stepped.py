"""Pools that are stepped with NumPy arrays, on both backends."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_batch import spaces
from tfagents_batch.envs.graph import host_calls
from tfagents_batch.envs.native import op
from tfagents_batch.envs.shared.step_batch import StepBatch
from tfagents_batch.types import EnvSpec


class Stepped:
    """Pool with ``reset`` and ``step`` that return failures instead of raising them.

    On the native backend they are eager operations.
    """

    def __init__(self, pool: Any):
        self._pool = pool
        if pool.handle is None:
            self.reset, self.step = pool.engine.reset, pool.engine.step
            return
        pair = pool.observation_space, pool.action_space
        spec = EnvSpec(pool.num_envs, *pair, pool.info, None)
        self._count = len(spaces.leaves(pool.observation_space))
        outputs = host_calls.outputs(spec)
        self._calls = op.Calls(pool.handle, outputs)
        self._token = tf.constant(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def reset(self, seed: int) -> StepBatch:
        return self._batch(self._calls.init(tf.constant(seed)))

    def step(self, action: list[np.ndarray]) -> StepBatch:
        inputs = [self._token, *map(tf.constant, action)]
        return self._batch(self._calls.step(inputs))

    def steps(self, count: int = 1, action: int = 0) -> StepBatch:
        """Step ``count`` times with the same discrete action; return the last batch."""
        for _ in range(count):
            batch = self.step([np.full(self.num_envs, action, np.int32)])
        return batch

    def _batch(self, outputs: list[tf.Tensor]) -> StepBatch:
        self._token, *arrays = outputs
        arrays = [np.array(array) for array in arrays]
        count = self._count
        info = dict(zip(self._pool.info, arrays[count + 4 :], strict=True))
        return StepBatch(arrays[:count], *arrays[count : count + 4], info)
