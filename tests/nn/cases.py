"""Spaces, specs and steps for the tests of networks."""

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import nest
from tfagents_batch.types import EnvSpec, TimeStep

VECTOR = gs.Box(-1, 1, (3,))
OBSERVATIONS = {
    "vector": VECTOR,
    "matrix": gs.Box(-1, 1, (2, 3), np.float64),
    "discrete": gs.Discrete(4, start=2),
    "multi_discrete": gs.MultiDiscrete([2, 3]),
    "multi_binary": gs.MultiBinary(5),
    "bytes": gs.Box(0, 255, (6,), np.uint8),
    "whole": gs.Box(-100, 100, (3,), np.int64),
    "half": gs.Box(-1, 1, (3,), np.float16),
    "image": gs.Box(0, 255, (44, 40, 3), np.uint8),
    "channels_first": gs.Box(0, 255, (4, 84, 84), np.uint8),
    "grey": gs.Box(0, 255, (84, 84), np.uint8),
    "small_image": gs.Box(0, 255, (10, 10, 4), np.uint8),
    "nested": gs.Dict(
        image=gs.Box(0, 255, (10, 10, 1), np.uint8),
        pair=gs.Tuple([VECTOR, gs.Discrete(3)]),
    ),
}
ACTIONS = {
    "discrete": gs.Discrete(3),
    "box": gs.Box(-1, 1, (2,)),
    "scalar_box": gs.Box(-1, 1, ()),
    "multi_discrete": gs.MultiDiscrete([2, 3]),
    "multi_binary": gs.MultiBinary(4),
}


def make_spec(observation=VECTOR, action=ACTIONS["discrete"], num_envs=2) -> EnvSpec:
    return EnvSpec(num_envs, observation, action, {})


def make_steps(space: gymnasium.Space, time: int, batch: int, seed=0) -> TimeStep:
    space.seed(seed)
    flags = tf.zeros([time, batch], tf.bool)

    def stack():
        rows = [[space.sample() for _ in range(batch)] for _ in range(time)]
        specs = nest.specs(space, (time, batch))
        flat = tf.nest.flatten(specs)
        columns = zip(*(tf.nest.flatten(x) for row in rows for x in row), strict=True)
        values = [
            tf.reshape(tf.cast(np.stack(column), spec.dtype), spec.shape)
            for column, spec in zip(columns, flat, strict=True)
        ]
        return tf.nest.pack_sequence_as(specs, values)

    return TimeStep(stack(), tf.zeros([time, batch]), flags, flags, flags, {})
