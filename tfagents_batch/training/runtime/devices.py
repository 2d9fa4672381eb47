"""The devices of a run, chosen by its environments and its network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfagents_batch import encoding, placement, spaces
from tfagents_batch.interfaces import Env
from tfagents_batch.placement import Placement, Work
from tfagents_batch.types import EnvSpec


def choose(
    config: Any,
    spec: EnvSpec,
    envs: Sequence[Env],
    own_network: bool = False,
) -> Placement:
    """Choose where a run collects and updates, see ``placement.choose``.

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
    return placement.choose(config.device, config.compile, work)


def text(found: Placement) -> str:
    """Return one line for the console."""
    return f"device {found.name}: {found.reason}"
