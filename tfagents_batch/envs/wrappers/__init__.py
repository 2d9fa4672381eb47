"""Wrappers of single environments, for use in the constructors of a batch.

    from tfagents_batch.envs import wrappers

    def make():
        env = gymnasium.make("Pendulum-v1")
        return wrappers.standard_stack(wrappers.ActionRepeat(env, 2))

    env = tfb.make_env(make, num_envs=8)

or by name, as in the config of a run (see ``named``)::

    env = tfb.make_env("Pendulum-v1", 8, wrappers=["standard_stack"])

They run in worker processes and must not import TensorFlow. Use Gymnasium's wrapper if
it has the same one; ``docs/concepts/wrappers.md`` lists the differences.
"""

from tfagents_batch.envs.wrappers.actions import ActionRepeat, ClipAction
from tfagents_batch.envs.wrappers.episodes import AutoReset, LimitDuration, RandomStart
from tfagents_batch.envs.wrappers.observations import (
    FrameDelta,
    FrameHistory,
    SelectEntries,
    SelectKey,
)
from tfagents_batch.envs.wrappers.ranges import RangeNormalize
from tfagents_batch.envs.wrappers.stack import standard_stack

__all__ = [
    "ActionRepeat",
    "AutoReset",
    "ClipAction",
    "FrameDelta",
    "FrameHistory",
    "LimitDuration",
    "RandomStart",
    "RangeNormalize",
    "SelectEntries",
    "SelectKey",
    "standard_stack",
]
