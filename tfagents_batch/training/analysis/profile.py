"""Where the time of an iteration goes, measured part by part.

An iteration is one program, which a clock sees from outside only. So its parts are
compiled as programs of their own, the way the whole is, and timed by medians:

    collect    the source alone
    inference  the policy on the steps that were collected, one after another
    update     the algorithm on the trajectory that was collected
    environment, transfer
               what collecting takes beside inference, divided by what the workers say
               that their steps took: the rest is waking them, waiting for the slowest
               and copying
    rest       what the whole takes beside its parts: reading metrics, Python

The parts are timed on a machine that does nothing else of the run; each is warm, so
that they may add up to more than the whole. Weights are put back afterwards.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.envs.graph.function import function
from tfagents_batch.errors import UserError
from tfagents_batch.training import program
from tfagents_batch.training.run_folder import runs
from tfagents_batch.types import Trajectory

FILE = "profile.json"
TRACE = "trace"  # folder of the run, where TensorBoard does not mix it with metrics
REPEATS = 9  # of each measurement
_TRACED = 3  # iterations under TensorFlow's profiler
_WORKER = "time/worker_step_ms_p50"

_ADVICE = {
    "environment": (
        "environments take most of it: more workers if cores are free, cheaper "
        "environments, or fewer steps a gradient step (more epochs)"
    ),
    "inference": (
        "acting takes most of it: more environments a step, or a smaller network"
    ),
    "update": (
        "updates take most of it: larger minibatches, fewer epochs, a smaller network, "
        "or more threads where layers are large"
    ),
    "transfer": (
        "waking workers and waiting for the slowest takes most of it: more "
        "environments a worker, fewer workers than cores, environments of equal speed"
    ),
    "rest": (
        "what is around the programs takes most of it: longer rollouts, so that there "
        "are fewer iterations"
    ),
}


class Profile(NamedTuple):
    """Medians of one iteration.

    Attributes:
      iteration_ms: of the whole program.
      parts_ms: of its parts, by name.
      way: what XLA compiles, see ``program.Plan``.
      repeats: of each measurement.
      advice: what to do about the largest part.
    """

    iteration_ms: float
    parts_ms: dict[str, float]
    way: str
    repeats: int
    advice: str

    @property
    def shares(self) -> dict[str, float]:
        """Of the sum of the parts."""
        total = sum(self.parts_ms.values()) or 1.0
        return {name: ms / total for name, ms in self.parts_ms.items()}

    def table(self) -> str:
        """Lines for people."""
        lines = [f"{'part':<12}{'ms':>10}{'share':>8}"]
        for name, ms in self.parts_ms.items():
            lines.append(f"{name:<12}{ms:>10.2f}{self.shares[name]:>8.0%}")
        lines.append(f"{'iteration':<12}{self.iteration_ms:>10.2f}")
        return "\n".join([*lines, self.advice])

    def to_dict(self) -> dict[str, Any]:
        """What ``profile.json`` holds."""
        shares = {name: round(share, 4) for name, share in self.shares.items()}
        parts = {name: round(ms, 4) for name, ms in self.parts_ms.items()}
        return {
            **{"schema": 1, "iteration_ms": round(self.iteration_ms, 4)},
            **{"parts_ms": parts, "shares": shares, "compile": self.way},
            **{"repeats": self.repeats, "advice": self.advice},
        }


def run(experiment: Any, folder: pathlib.Path, repeats: int = REPEATS) -> Profile:
    """Profile a trained experiment and write it to its run's folder.

    Args:
      experiment: started and trained for an iteration at least. Its environments are
        stepped on; its weights and statistics are as before when this returns.
      folder: of the run; gets ``profile.json`` and TensorFlow's own profile.
      repeats: of each measurement.

    Raises:
      UserError: if the source is not one that can be taken apart.
      EnvError: if an environment failed.
    """
    profile = measure(experiment, repeats)
    runs.write_atomic(folder / FILE, json.dumps(profile.to_dict(), indent=2) + "\n")
    trace(experiment, folder / TRACE)
    return profile


def measure(experiment: Any, repeats: int) -> Profile:
    """Time an iteration and its parts, see ``run``."""
    source, algorithm = experiment.source, experiment.algorithm
    if not hasattr(source, "actor") or not hasattr(source, "env"):
        raise UserError(
            f"a {type(source).__name__} cannot be profiled: only sources that step "
            "environments with an actor can be taken apart"
        )
    way, config = experiment.iterate.way, experiment.config
    seed = tf.constant(1, tf.int32)
    counters = getattr(source.env, "metrics", dict)

    @function(envs=[source.env], jit_compile=way == "full", autograph=False)
    def collect(seed):
        with tf.device("/CPU:0"):
            return source(seed)

    @tf.function(jit_compile=way == "full", autograph=False)
    def infer(trajectory, seed):
        return _act(source.actor, trajectory, seed, source.explore)

    @tf.function(jit_compile=way in ("full", "update"), autograph=False)
    def update(trajectory, seed):
        return algorithm.update(trajectory, seed)

    with _kept(experiment.named_variables()) as put_back:
        whole = _median(repeats, lambda: experiment.iterate(seed), put_back)
        counters()  # of the training before: dropped
        collected = _median(repeats, lambda: collect(seed))
        worker = counters().get(_WORKER)
        trajectory = collect(seed)
        acting = _median(repeats, lambda: infer(trajectory, seed))
        with tf.device(program.place(config.device)):
            learning = _median(repeats, lambda: update(trajectory, seed), put_back)
    stepping = max(collected - acting, 0.0)
    own = stepping if worker is None else min(worker * source.length, stepping)
    both = max(collected, learning) if config.overlap else collected + learning
    parts = {
        "environment": own,
        "inference": acting,
        "update": learning,
        "transfer": stepping - own,
        "rest": max(whole - both, 0.0),
    }
    largest = max(parts, key=lambda name: parts[name])
    return Profile(whole, parts, way, repeats, _ADVICE[largest])


def trace(experiment: Any, folder: pathlib.Path) -> None:
    """Write TensorFlow's profile of a few iterations, for TensorBoard or XProf."""
    seed = tf.constant(1, tf.int32)
    with _kept(experiment.named_variables()):
        tf.profiler.experimental.start(str(folder))
        try:
            for number in range(_TRACED):
                with tf.profiler.experimental.Trace("iteration", step_num=number, _r=1):
                    _wait(experiment.iterate(seed))
        finally:
            tf.profiler.experimental.stop()


def _act(actor: Any, trajectory: Trajectory, seed: Any, explore: bool) -> Any:
    """Act on every step ``[T, B]`` that was collected, in order, as a rollout does."""
    steps = nest.map(lambda x: x[:-1], trajectory.steps)
    length, batch = steps.first.shape
    noise = actor.noise((length, batch), seed)

    def step(t, state, total):
        timestep, now = nest.map(lambda x: x[t], (steps, noise))
        action, behavior, state = actor.act(timestep, state, now, explore)
        used = [tf.cast(x, tf.float32) for x in nest.flatten((action, behavior))]
        return t + 1, state, total + tf.add_n([tf.reduce_sum(x) for x in used])

    return tf.while_loop(
        lambda t, *_: t < length,
        step,
        (tf.constant(0), trajectory.state, tf.zeros([])),
        maximum_iterations=length,
        parallel_iterations=1,
    )[1:]


def _median(
    repeats: int, call: Callable[[], Any], before: Callable[[], None] | None = None
) -> float:
    """Milliseconds of a call, after one that may compile."""
    times = []
    for number in range(repeats + 1):
        if before is not None:
            before()
        begin = time.perf_counter()
        _wait(call())
        if number:
            times.append(1000 * (time.perf_counter() - begin))
    return statistics.median(times)


def _wait(outputs: Any) -> None:
    """Until everything is computed and can be read by Python."""
    for tensor in nest.flatten(outputs):
        tensor.numpy()


@contextmanager
def _kept(variables: dict[str, tf.Variable]) -> Iterator[Callable[[], None]]:
    """Variables that are put back at the end, and by what is yielded."""
    values = {name: tf.identity(x) for name, x in variables.items()}

    def put_back() -> None:
        for name, value in values.items():
            variables[name].assign(value)

    try:
        yield put_back
    finally:
        put_back()
