"""The devices of a run, chosen by its environments, its network and the machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfagents_batch import encoding, placement, spaces
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Env
from tfagents_batch.machine import amount
from tfagents_batch.placement import HOST, Placement, Work
from tfagents_batch.training.diagnostics import gpu, nvidia
from tfagents_batch.training.diagnostics.nvidia import Gpu
from tfagents_batch.types import EnvSpec

LEAST = 1 << 30  # free bytes of a GPU, without which CUDA and TensorFlow cannot start


def check(device: str) -> None:
    """Check that a GPU can be used if one is asked for, before anything starts.

    Args:
      device: the setting, "auto", "cpu" or "gpu".

    Raises:
      UserError: says why TensorFlow sees no GPU, or who uses its memory.
    """
    if device != "gpu":
        return
    if not placement.has_gpu():
        reason = gpu.problem() or (
            "this process has used TensorFlow on the CPU before; start a new one"
        )
        raise UserError(f"--device=gpu, but {reason}; or use --device=cpu")
    found = used_gpu()
    if _is_full(found):
        line = gpu.gpu_line(found)
        raise UserError(f"--device=gpu, but {line.text}; {line.advice}")


def place_run(
    config: Any,
    spec: EnvSpec,
    envs: Sequence[Env],
    own_network: bool = False,
) -> Placement:
    """Say where a run collects and updates, see ``placement.choose``.

    Args:
      config: config of the run.
      spec: spec of all environments that are stepped together.
      envs: the environments; none for logged data, which lies where updates run.
      own_network: whether the network is the user's, whose size is not known.
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
    found = placement.choose(config.device, config.compile, work, placement.has_gpu())
    if found.name == "cpu":
        return found
    used = used_gpu()
    if used is not None and _is_full(used):  # else refused by ``check``
        return HOST._replace(reason=f"of the GPU's memory {amount(used.free)} is free")
    return found if used is None else found._replace(free_bytes=used.free)


def used_gpu() -> Gpu | None:
    """Return the GPU that TensorFlow uses, the first visible one; None if unknown."""
    if not tf.config.list_physical_devices("GPU"):
        return None
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    found = nvidia.gpus()
    known = chosen.isdecimal() and int(chosen) < len(found)
    return found[int(chosen)] if known else None


def text(found: Placement) -> str:
    """Return one line for the console."""
    return f"device {found.name}: {found.reason}"


def _is_full(found: Gpu | None) -> bool:
    return found is not None and found.free < LEAST
