"""Speed and memory of our replay with made-up steps, in a new process."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from benchmarks.inside import memory, session, trained
from benchmarks.work.works import versions

_GB = 10**9
_WINDOW = 2  # steps of a window: a transition
_PRIORITIES = 64  # different batches of priorities
# Operations of each measured part.
_PARTS = {
    "source": ("source",),
    "write": ("write",),
    "sample": ("sample",),
    "both": ("write", "sample"),
}


@dataclasses.dataclass(frozen=True)
class Replaying:
    """A replay to measure, of steps that are made up.

    With ``compiled``, XLA compiles the whole loop, else only the functions of the
    replay, as in a program whose network has convolutions. With ``prioritized``, it
    samples by priority and sets the priorities, and observations are 4 numbers; else it
    samples stacks of frames uniformly.
    """

    compiled: bool
    prioritized: bool
    capacity: int = 1_000_000  # transitions
    num_envs: int = 8  # steps of a write
    batch_size: int = 32  # transitions of a sample
    side: int = 84  # pixels of a side of a frame
    stack: int = 4  # frames of an observation
    threads: int = 1  # of TensorFlow
    seconds: float = 0.5  # minimum of measured seconds of each part
    repeats: int = 9  # measurements of each part, whose median counts


def measure(work: Replaying) -> dict[str, Any]:
    """Measure microseconds of each part, and the memory of a full replay.

    A write includes the source, which makes up steps; its own time is subtracted.

    Raises:
      RuntimeError: if the replay is not full.
    """
    import tensorflow as tf

    from tfagents_batch.training.runtime import threads

    threads.apply(work.threads)
    before = memory.resident()["learner_rss_mib"]
    replay = _replay(work)
    repeated = 0

    def run(program: Callable[[Any, Any], Any], count: int) -> float:
        """Repeat operations; return the seconds."""
        nonlocal repeated
        first, number = (tf.constant(x, tf.int32) for x in (repeated, count))
        repeated += count  # so that every repetition has other random numbers
        began = time.perf_counter()
        program(first, number).numpy()
        return time.perf_counter() - began

    programs = {name: _program(replay, work, x) for name, x in _PARTS.items()}
    # Twice, so that priorities of removed transitions are part of the work too.
    run(programs["write"], 2 * (work.capacity // work.num_envs + 2))
    replay.check()
    size = int(replay.metrics()["replay/size"])
    if size < work.capacity - work.stack * work.num_envs:
        raise RuntimeError(f"the replay has {size} of {work.capacity} transitions")
    after = memory.resident()["learner_rss_mib"]
    times = {}
    for name, program in programs.items():
        run(program, 10)  # compiles
        count = max(10, round(10 * work.seconds / work.repeats / run(program, 10)))
        seconds = sorted(run(program, count) for _ in range(work.repeats))
        times[name] = seconds[work.repeats // 2] / count * 1e6
    return {
        "sample_us": times["sample"],
        **{f"{x}_us": times[x] - times["source"] for x in ("write", "both")},
        "memory_gb": (after - before) * memory.MIB / _GB,
        "transitions": size,
        "versions": versions("tensorflow", "keras", "gymnasium", "numpy"),
    }


def _replay(work: Replaying) -> Any:
    from tfagents_batch.clocks import Ratio
    from tfagents_batch.interfaces import Windows
    from tfagents_batch.sources.off_policy import ReplaySettings
    from tfagents_batch.sources.replay.replay import Replay, outline

    source = _source(work)
    config = ReplaySettings(
        capacity=work.capacity,
        stack=None if work.prioritized else work.stack,
        prioritized=work.prioritized,
        beta=0.5,
    )
    wanted = Windows(work.batch_size, _WINDOW, Ratio(1, work.num_envs, 0))
    return Replay(source, config, outline(source), wanted)


def _source(work: Replaying) -> Any:
    """Return a source of steps from a table, one of every environment in a collect."""
    import tensorflow as tf
    from tensorflow.compiler.tf2xla.python import xla

    from tfagents_batch.types import Collected, TimeStep, Trajectory

    batch = work.num_envs
    # Equal frames are valid stacks. XLA cannot know that all rows are equal, so it
    # computes nothing in advance.
    if work.prioritized:
        table = tf.random.stateless_normal([2, batch, 4], [0, 0])
    else:
        shape = [2, batch, work.side, work.side, work.stack]
        table = tf.fill(shape, tf.constant(7, tf.uint8))

    class Source(tf.Module):
        envs = ()
        compilable = True

        def __init__(self):
            super().__init__()
            self._table = tf.Variable(table, trainable=False)
            self._count = tf.Variable(0, trainable=False)

        def named_variables(self):
            return {}

        def collect(self, seed, step):
            del seed, step
            count = self._count.assign_add(1, read_value=True)
            observation = tf.stack([self._row((count - 1) % 2), self._row(count % 2)])
            never = tf.zeros([2, batch], tf.bool)
            first = tf.stack([tf.fill([batch], count == 1), tf.fill([batch], False)])
            reward = tf.ones([2, batch])
            steps = TimeStep(observation, reward, first, never, never, {})
            trajectory = Trajectory(steps, tf.fill([1, batch], count % 2), {})
            made = tf.constant(batch, tf.int64)
            return Collected(made, tf.constant(True), tf.constant(1), {}, trajectory)

        def _row(self, index):
            rows = self._table.read_value()
            if not work.compiled:
                return rows[index]
            # With a slice of TensorFlow, XLA compiles anew for each index.
            start = tf.stack([index, *[0] * (len(rows.shape) - 1)])
            return xla.dynamic_slice(rows, start, [1, *rows.shape[1:]])[0]

    return Source()


def _program(
    replay: Any, work: Replaying, operations: tuple[str, ...]
) -> Callable[[Any, Any], Any]:
    """Return a program that repeats operations, and returns a number of their results.

    A sample by priority also sets the priorities.
    """
    import tensorflow as tf

    priorities = tf.random.stateless_uniform([_PRIORITIES, work.batch_size], [1, 1])

    def body(i, end, used):
        step = tf.cast(i, tf.int64) * work.num_envs
        if "source" in operations:
            made = replay.inner.collect(i, step).trajectory
            used += _use(made.steps.observation, work.compiled)
        if "write" in operations:
            replay.store(replay.collect(i, step), step)
        if "sample" in operations:
            drawn = replay.sample((), i, step)
            used += _use(drawn.steps.observation, work.compiled)
            used += tf.reduce_sum(drawn.reward) + tf.reduce_sum(drawn.weight)
            used += tf.cast(tf.reduce_sum(drawn.action), tf.float32)
            used += tf.reduce_sum(tf.cast(drawn.mask, tf.float32))
            if work.prioritized:
                replay.feedback(tf.gather(priorities, i % _PRIORITIES))
        return i + 1, end, used

    @tf.function(jit_compile=work.compiled, autograph=False)
    def run(start, count):
        return tf.while_loop(
            lambda i, end, _: i < end,
            body,
            (start, start + count, 0.0),
            parallel_iterations=1,
        )[2]

    return run


def _use(tensor: Any, compiled: bool) -> Any:
    """Return a number of a tensor that must be computed completely, f32 ``[]``."""
    import tensorflow as tf
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    if compiled:  # else XLA would compute only the number that is used
        (tensor,) = gen_xla_ops.xla_optimization_barrier(input=[tensor])
    return tf.cast(tf.reshape(tensor, [-1])[0], tf.float32)


if __name__ == "__main__":
    session.figures(trained.load, measure, Replaying)
