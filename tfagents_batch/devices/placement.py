"""Devices: where experience is collected, where updates run, and what is on the host.

No other module of the package chooses a device, except the operation of the native
backend for a call outside of programs. Those that start workers hide GPUs from them.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.eager import context

from tfagents_batch import encoding, spaces
from tfagents_batch.devices import gpu_remarks, nvidia
from tfagents_batch.devices.machine import amount
from tfagents_batch.devices.nvidia import Gpu
from tfagents_batch.errors import UserError
from tfagents_batch.types import EnvSpec

CPU, GPU = "/CPU:0", "/GPU:0"  # TensorFlow's names
# From here on a GPU pays, see docs/gpu.md; smaller work is faster on a CPU.
ROWS = 256  # environments in one TensorFlow batch
WIDTH, MINIBATCH = 512, 1024  # units of a layer, and transitions of a minibatch
LEAST = 1 << 30  # free bytes of a GPU, without which CUDA and TensorFlow cannot start

_stepping = contextvars.ContextVar("device that steps environments", default=CPU)


class Placement(NamedTuple):
    """Devices of a run, by TensorFlow's names.

    Attributes:
      collect: device on which environments are stepped and actions are selected.
      update: device that holds the learner and stored experience, and updates.
      reason: why.
      free_bytes: memory of the GPU that is free; None if unknown, or without one.
    """

    collect: str = CPU
    update: str = CPU
    reason: str = "set by the user"
    free_bytes: int | None = None

    @property
    def whole(self) -> bool:
        """Whether one program can do everything: all its variables on one device."""
        return self.collect == self.update

    @property
    def name(self) -> str:
        """Device of the updates in the words of the flag, "cpu" or "gpu"."""
        return "cpu" if self.update == CPU else "gpu"

    def collecting(self) -> AbstractContextManager:
        """Return a context in which environments are stepped and actions selected."""
        return _collecting(self.collect)

    def updating(self) -> AbstractContextManager:
        """Return a context in which experience is stored and an algorithm updates."""
        return tf.device(self.update)


HOST = Placement()


class Work(NamedTuple):
    """Work of a run, by which its devices are chosen."""

    in_graph: bool  # whether all its environments are written in TensorFlow
    compilable: bool  # whether XLA programs can step its environments
    threads: bool  # whether programs of their own collect beside the updates
    num_envs: int  # environments that are stepped together
    images: bool  # whether observations are images, so that networks convolve
    width: int  # units of the widest hidden layer; 0 if it is not known
    minibatch: int  # transitions of a minibatch


def choose(device: str, compile: str, work: Work, gpu: bool) -> Placement:
    """Choose the devices of a run by its settings and its work.

    A whole program runs on one device. Environments written in TensorFlow may run on a
    GPU. Python environments are stepped from the CPU, in a program of its own, or from
    the GPU's program with ``compile="full"`` and in threads beside the updates.
    """
    if device == "cpu":
        return HOST
    if device == "auto":
        if not gpu:
            return Placement(reason="TensorFlow sees no GPU")
        reason = _gain(work)
        if not reason:
            return Placement(reason="small networks are faster on a CPU")
    else:
        reason = "set by the user"
    compiled = compile in ("auto", "full")
    inside = work.compilable and compiled and (work.threads or compile == "full")
    if (work.in_graph and compile != "update") or inside:
        return Placement(GPU, GPU, f"{reason}; environments are stepped from it too")
    return Placement(CPU, GPU, f"{reason}; environments are stepped from the CPU")


def _gain(work: Work) -> str:
    """Return why a run is faster on a GPU; empty if it is not."""
    if work.in_graph and work.num_envs >= ROWS:
        return f"{work.num_envs} environments are written in TensorFlow"
    if work.images:
        return "networks convolve images"
    if work.width >= WIDTH and work.minibatch >= MINIBATCH:
        return f"minibatches of {work.minibatch} for layers of {work.width} units"
    return ""


def check(device: str) -> None:
    """Refuse "gpu" before anything starts if none can be used.

    The error says why TensorFlow sees no GPU, or who uses its memory.
    """
    if device != "gpu":
        return
    if not has_gpu():
        reason = gpu_remarks.problem() or (
            "this process has used TensorFlow on the CPU before; start a new one"
        )
        raise UserError(f"--device=gpu, but {reason}; or use --device=cpu")
    gpu = used_gpu()
    if _is_full(gpu):
        line = gpu_remarks.gpu_line(gpu)
        raise UserError(f"--device=gpu, but {line.text}; {line.advice}")


def of_run(
    config: Any, spec: EnvSpec, envs: Sequence[Any], own_network: bool = False
) -> Placement:
    """Say where a run collects and updates, see ``choose``.

    Without environments, logged data lies where updates run. The size of a user's own
    network is not known.
    """
    compilable = all(getattr(env, "compilable", False) for env in envs)
    # Environments in processes are compilable too, by the calls of their hub.
    in_graph = compilable and all(getattr(env, "hub", None) is None for env in envs)
    observations = spaces.leaves(spec.observation_space)
    collected = config.source.transitions(spec.num_envs, spec.max_episode_steps)
    size = config.settings.update_size(collected)
    work = Work(
        in_graph=in_graph,
        compilable=compilable,
        threads=config.source.beside > 0,
        num_envs=spec.num_envs if envs else 0,
        images=any(encoding.is_image(leaf.space) for leaf in observations),
        width=0 if own_network else max(size.hidden, default=0),
        minibatch=size.rows,
    )
    chosen = choose(config.device, config.compile, work, has_gpu())
    if chosen.name == "cpu":
        return chosen
    used = used_gpu()
    if used is not None and _is_full(used):  # else refused by ``check``
        return HOST._replace(reason=f"of the GPU's memory {amount(used.free)} is free")
    return chosen if used is None else chosen._replace(free_bytes=used.free)


def used_gpu() -> Gpu | None:
    """Return the GPU that TensorFlow uses, the first visible one; None if unknown."""
    if not tf.config.list_physical_devices("GPU"):
        return None
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    described = nvidia.gpus()
    known = chosen.isdecimal() and int(chosen) < len(described)
    if os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":  # not the driver's order
        known = known and len({gpu.name for gpu in described}) == 1
    return described[int(chosen)] if known else None


def _is_full(gpu: Gpu | None) -> bool:
    return gpu is not None and gpu.free < LEAST


def host() -> AbstractContextManager:
    """Return a context for variables and operations in the machine's memory."""
    return tf.device(CPU)


def stepping() -> AbstractContextManager:
    """Return a context for the call of an environment, see ``Placement.collecting``."""
    return tf.device(CPU if tf.executing_eagerly() else _stepping.get())


@contextlib.contextmanager
def _collecting(device: str) -> Iterator[None]:
    token = _stepping.set(device)
    try:
        with tf.device(device):
            yield
    finally:
        _stepping.reset(token)


def current() -> AbstractContextManager:
    """Return a context with the device of this thread, to be entered in another one."""
    return tf.device(_current_name())


def on_host() -> bool:
    """Return whether variables that are created here lie in the machine's memory.

    Without a context of a device, TensorFlow prefers a GPU that it sees.
    """
    device = _current_name()
    return device.endswith(CPU.removeprefix("/")) if device else not has_gpu()


def _current_name() -> str | None:
    eager = context.context()  # which creates it
    assert eager is not None
    return eager.device_name


def has_gpu() -> bool:
    """Return whether TensorFlow sees a GPU and may use it."""
    kind, _ = GPU.removeprefix("/").split(":")
    return bool(tf.config.get_visible_devices(kind))


def claim(placement: Placement) -> None:
    """Let TensorFlow see the first GPU, or none, if it has not run an operation yet.

    By default TensorFlow takes nearly all memory of every visible GPU. Here it takes
    memory of one GPU as it needs it. Nothing is changed if an operation has run before
    or the visible GPUs are already chosen, as in a program that uses a GPU itself.
    """
    physical = tf.config.list_physical_devices("GPU")
    if not physical or tf.config.get_visible_devices("GPU") != physical:
        return
    used = physical[:1] if placement.name == "gpu" else []
    # Errors mean that devices exist already, or have been divided.
    with contextlib.suppress(RuntimeError, ValueError):
        for gpu in used:
            tf.config.experimental.set_memory_growth(gpu, True)
        tf.config.set_visible_devices(used, "GPU")
