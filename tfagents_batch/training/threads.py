"""Choose the number of TensorFlow's threads from the cores and the network.

A small layer is computed before a second thread has woken up, and more threads take
processor time from the environments' workers. With 64 units and minibatches of 128, one
thread needs two thirds of the processor time of two, and is also faster. Large layers
and convolutions benefit from every core.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import encoding, spaces
from tfagents_batch.envs.shared import cpus
from tfagents_batch.types import EnvSpec

LARGE = 1 << 24  # multiply-adds per layer and minibatch; below this, one thread is best


class Resources(NamedTuple):
    """Resources of the machine that a run uses."""

    # TensorFlow's threads, within an operation and across operations; 0 if it was too
    # late to choose and TensorFlow uses its default, every core
    threads: int
    cores: int  # cores that this process may use
    num_workers: int | None  # worker processes; None if unknown
    # Largest number of environments per worker; None without workers
    envs_per_worker: int | None
    reason: str  # explains the number of threads
    workers_reason: str = ""  # explains the number of workers, if it was measured

    def __str__(self) -> str:
        threads = _count(self.threads, "thread") if self.threads else "default threads"
        text = f"{threads} of TensorFlow on {_count(self.cores, 'core')}: {self.reason}"
        if self.envs_per_worker:
            per = _count(self.envs_per_worker, "environment")
            text += f"; {_count(self.num_workers, 'worker')} of up to {per}"
            text += f": {self.workers_reason}" if self.workers_reason else ""
        return text


def configure(
    config: Any, spec: EnvSpec, envs: Sequence[Any] = (), own_network: bool = False
) -> Resources:
    """Choose threads and set them, if TensorFlow has not run an operation yet."""
    workers = [getattr(env, "num_workers", None) for env in envs]
    num_workers = None if None in workers or not workers else sum(workers)
    cores = len(cpus.available())
    threads, reason = choose(config, spec, cores, own_network)
    programs = 1 + (config.source.beside or config.overlap)  # at the same time
    if not apply(threads, programs=programs):
        reason = f"TensorFlow had already run, too late for {threads} ({reason})"
        threads = tf.config.threading.get_intra_op_parallelism_threads()
    per_worker = math.ceil(spec.num_envs / num_workers) if num_workers else None
    counts = threads, cores, num_workers, per_worker
    workers_reason = getattr(envs[0], "workers_reason", "") if envs else ""
    return Resources(*counts, reason, workers_reason)


def choose(
    config: Any, spec: EnvSpec, cores: int, own_network: bool = False
) -> tuple[int, str]:
    """Return the number of threads for a config, and the reason; see ``configure``."""
    if config.threads is not None:
        return config.threads, "set by the user"
    number, reason = _for_network(config, spec, cores, own_network)
    if config.source.beside and number > 1:
        reason += "; predictions run beside updates, with threads of their own"
        return max(cores // 2, 1), reason
    return number, reason


def _for_network(
    config: Any, spec: EnvSpec, cores: int, own_network: bool
) -> tuple[int, str]:
    if own_network:
        return cores, "the network is your own, and its size is not known yet"
    observations = spaces.leaves(spec.observation_space)
    if any(encoding.is_image(leaf.space) for leaf in observations):
        return cores, "observations are images"
    largest = _multiply_adds(config, observations, spec.max_episode_steps)
    if largest < LARGE:
        return 1, "the network is small"
    return cores, "the network is large"


def apply(threads: int, programs: int = 1) -> bool:
    """Set TensorFlow's threads within an operation, unless it is too late.

    Programs that run at the same time need a thread each. Return False if threads exist
    already, with other numbers.
    """
    threading = tf.config.threading
    try:
        threading.set_intra_op_parallelism_threads(threads)
        threading.set_inter_op_parallelism_threads(max(threads, programs))
    except RuntimeError:  # TensorFlow's threads exist already
        return False
    return True


def _multiply_adds(
    config: Any, observations: list[spaces.Leaf], limit: int | None
) -> int:
    """Count multiply-adds of the built-in network's largest layer per minibatch.

    ``limit`` is the time limit of an episode in steps.
    """
    collected = config.source.transitions(config.num_envs, limit)
    size = config.settings.update_size(collected)
    inputs = sum(encoding.features(leaf.space) for leaf in observations)
    widths = [inputs, *size.hidden, 1]  # the output has one unit or more
    rows = max(size.rows, config.num_envs)
    return rows * max(a * b for a, b in itertools.pairwise(widths))


def _count(number: int | None, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
