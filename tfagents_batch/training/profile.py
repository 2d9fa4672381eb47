"""Profile an iteration: measure how long each of its parts takes.

An iteration is one program, which can only be timed as a whole. So each part is
compiled as a separate program, in the same mode, and its median time is measured:

    collect    the source alone
    inference  the policy on the collected steps, one after another
    update     the algorithm on the collected trajectory
    environment, transfer
               the time of collect minus inference; environment is the step time that
               the workers report, transfer is the rest: waking the workers, waiting
               for the slowest one and copying
    rest       the time of the iteration outside its parts: reading metrics, Python

While a part is timed, nothing else of the run uses the machine. Each part has run
before, so the parts may add up to more than the iteration. Weights are restored
afterwards.
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
from tfagents_batch.training.run_folder import files
from tfagents_batch.types import Trajectory

FILE = "profile.json"
TRACE = "trace"  # subfolder, so that TensorBoard does not mix it with metrics
REPEATS = 9  # measurements of each part
_TRACED = 3  # iterations under TensorFlow's profiler
_WORKER = "time/worker_step_ms_p50"

_ADVICE = {
    "environment": (
        "environments take most of the time: use more workers if cores are free, "
        "faster environments, or fewer environment steps per gradient step (more "
        "epochs)"
    ),
    "inference": (
        "acting takes most of the time: use more environments, or a smaller network"
    ),
    "update": (
        "updates take most of the time: use larger minibatches, fewer epochs, a "
        "smaller network, or more threads if layers are large"
    ),
    "transfer": (
        "waking workers and waiting for the slowest takes most of the time: use more "
        "environments per worker, fewer workers than cores, or environments of equal "
        "speed"
    ),
    "rest": (
        "work between the programs takes most of the time: use longer rollouts, which "
        "need fewer iterations"
    ),
}


class Profile(NamedTuple):
    """Median times of one iteration."""

    iteration_ms: float  # milliseconds of the whole program
    parts_ms: dict[str, float]  # milliseconds of its parts, by name
    mode: str  # part that XLA compiles, see ``program.Plan``
    repeats: int  # measurements of each part
    advice: str  # how to shorten the longest part

    @property
    def shares(self) -> dict[str, float]:
        """Share of each part in the sum of the parts, by name."""
        total = sum(self.parts_ms.values()) or 1.0
        return {name: ms / total for name, ms in self.parts_ms.items()}

    def table(self) -> str:
        """Return a table as text, with the advice in its last line."""
        lines = [f"{'part':<12}{'ms':>10}{'share':>8}"]
        for name, ms in self.parts_ms.items():
            lines.append(f"{name:<12}{ms:>10.2f}{self.shares[name]:>8.0%}")
        lines.append(f"{'iteration':<12}{self.iteration_ms:>10.2f}")
        return "\n".join([*lines, self.advice])

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``profile.json``."""
        shares = {name: round(share, 4) for name, share in self.shares.items()}
        parts = {name: round(ms, 4) for name, ms in self.parts_ms.items()}
        return {
            **{"schema": 1, "iteration_ms": round(self.iteration_ms, 4)},
            **{"parts_ms": parts, "shares": shares, "compile": self.mode},
            **{"repeats": self.repeats, "advice": self.advice},
        }


def run(experiment: Any, folder: pathlib.Path, repeats: int = REPEATS) -> Profile:
    """Profile a trained experiment and write ``profile.json`` to its run's folder.

    Its environments are stepped further; its weights and statistics do not change.
    TensorFlow's profile is written, too.

    Raises:
      UserError: if the source does not step environments with an actor.
      EnvError: if an environment failed.
    """
    profile = measure(experiment, repeats)
    files.write_atomic(folder / FILE, json.dumps(profile.to_dict(), indent=2) + "\n")
    trace(experiment, folder / TRACE)
    return profile


def check(config: Any) -> None:
    """Refuse to profile a run unless collecting and updating take turns."""
    if not config.source.takes_turns:
        raise UserError(
            "--profile times collecting and updating that take turns, on trajectories "
            "of one length or of whole episodes; leave it out with a replay, a queue "
            "or rollout.wait_for"
        )


def measure(experiment: Any, repeats: int) -> Profile:
    """Time an iteration and its parts, see ``run``."""
    source, algorithm = experiment.source, experiment.algorithm
    mode, config = experiment.program.mode, experiment.config
    now = tf.constant(1, tf.int32), tf.constant(experiment.program.step, tf.int64)
    counters = getattr(source.env, "metrics", dict)

    @function(envs=source.envs, jit_compile=mode == "full", autograph=False)
    def collect(*now):
        with experiment.placement.collecting():
            return source.collect(*now)

    @tf.function(jit_compile=mode == "full", autograph=False)
    def infer(trajectory, *now):
        return _act(source, source.env.spec.num_envs, trajectory, *now)

    @tf.function(jit_compile=mode in ("full", "update"), autograph=False)
    def update(trajectory, *now):
        return algorithm.update(trajectory, *now)

    with _restored(experiment.named_variables()) as restore:
        whole = _median(repeats, lambda: _iterate(experiment), restore)
        counters()  # drop the values of the training before
        collecting = _median(repeats, lambda: collect(*now))
        worker = counters().get(_WORKER)
        trajectory = collect(*now).trajectory
        played, rows = source.played(trajectory), trajectory.mask.shape[0]
        acting = _median(repeats, lambda: infer(trajectory, *now)) * played / rows
        with experiment.placement.updating():
            learning = _median(repeats, lambda: update(trajectory, *now), restore)
    stepping = max(collecting - acting, 0.0)
    env_time = stepping if worker is None else min(worker * played, stepping)
    both = max(collecting, learning) if config.overlap else collecting + learning
    parts = {
        "environment": env_time,
        "inference": acting,
        "update": learning,
        "transfer": stepping - env_time,
        "rest": max(whole - both, 0.0),
    }
    largest = max(parts, key=lambda name: parts[name])
    return Profile(whole, parts, mode, repeats, _ADVICE[largest])


def trace(experiment: Any, folder: pathlib.Path) -> None:
    """Write TensorFlow's profile of a few iterations, for TensorBoard or XProf."""
    with _restored(experiment.named_variables()):
        tf.profiler.experimental.start(str(folder))
        try:
            for number in range(_TRACED):
                with tf.profiler.experimental.Trace("iteration", step_num=number, _r=1):
                    _iterate(experiment)
        finally:
            tf.profiler.experimental.stop()


def _iterate(experiment: Any) -> dict[str, Any]:
    """Train for one iteration."""
    return experiment.program(2**62, rounds=1)


def _act(
    source: Any, batch: int, trajectory: Trajectory, seed: Any, trained: Any
) -> Any:
    """Act on the collected steps ``[T, batch]`` in order, as a rollout does."""
    actor = source.actor
    steps = nest.map(lambda x: x[:-1, :batch], trajectory.steps)
    length = steps.first.shape[0]
    noise = actor.noise((length, batch), seed)

    def step(t, state, total):
        timestep, now = nest.map(lambda x: x[t], (steps, noise))
        action, behavior, state = actor.act(timestep, state, now, trained, True)
        used = [tf.cast(x, tf.float32) for x in nest.flatten((action, behavior))]
        return t + 1, state, total + tf.add_n([tf.reduce_sum(x) for x in used])

    return tf.while_loop(
        lambda t, *_: t < length,
        step,
        (tf.constant(0), actor.initial_state(batch), tf.zeros([])),
        parallel_iterations=1,
        name="acting",
    )[1:]


def _median(
    repeats: int, call: Callable[[], Any], before: Callable[[], None] | None = None
) -> float:
    """Return the median milliseconds of a call; the first call may compile."""
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
    """Wait until all outputs are computed and Python can read them."""
    for output in nest.flatten(outputs):
        if tf.is_tensor(output):  # else Python has read it already
            output.numpy()


@contextmanager
def _restored(variables: dict[str, tf.Variable]) -> Iterator[Callable[[], None]]:
    """Restore variables when the yielded function is called, and at the end."""
    values = {name: tf.identity(x) for name, x in variables.items()}

    def restore() -> None:
        for name, value in values.items():
            variables[name].assign(value)

    try:
        yield restore
    finally:
        restore()
