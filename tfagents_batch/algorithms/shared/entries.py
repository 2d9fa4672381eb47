"""Entries of a Dict observation that the actor sees, and those that critics see.

A critic is not needed to act, so it may see in training what the actor never will, such
as the state of a simulation (Pinto et al. 2018, arXiv:1710.06542).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tfagents_batch import spaces
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.nn.encoder import ACTION_MASK
from tfagents_batch.types import EnvSpec

_GROUP = "observation"


@dataclasses.dataclass(frozen=True)
class EntrySettings:
    """Settings of what actor and critics see; both see the action mask."""

    actor_keys: tuple[str, ...] = option(
        (),
        "entries of a Dict observation that the actor sees; empty: all",
        group=_GROUP,
    )
    critic_keys: tuple[str, ...] = option(
        (), "entries of it that the value or critics see; empty: all", group=_GROUP
    )

    @property
    def splits(self) -> bool:
        """Whether actor and critics may see different entries."""
        return bool(self.actor_keys or self.critic_keys)

    def seen(self, spec: EnvSpec, network: Any) -> tuple[EnvSpec, EnvSpec]:
        """Return the specs of what actor and critics see of an environment.

        Raises:
          UserError: for a key that the observation lacks, an entry that neither sees,
            or the user's own ``network``, which sees the whole observation.
        """
        if self.splits and network is not None:
            raise UserError(
                "actor_keys and critic_keys need the built-in network, but you passed "
                "your own one; leave them out, or leave network out"
            )
        found = acting(self, spec), _part(spec, self.critic_keys, "critic_keys")
        if self.actor_keys and self.critic_keys:
            known = {*spec.observation_space.spaces} - {ACTION_MASK}
            if unseen := sorted(known - {*self.actor_keys, *self.critic_keys}):
                raise UserError(
                    f"neither actor_keys nor critic_keys has the entry {unseen[0]!r} "
                    "of the observation; add it to one of them, or leave it out by the "
                    "wrapper FilterObservation"
                )
        return found


def acting(settings: Any, spec: EnvSpec) -> EnvSpec:
    """Return the spec of what an agent needs to act, by the settings that it has.

    Raises:
      UserError: for a key that the observation lacks.
    """
    return _part(spec, getattr(settings, "actor_keys", ()), "actor_keys")


def _part(spec: EnvSpec, keys: tuple[str, ...], name: str) -> EnvSpec:
    space = spaces.part(spec.observation_space, keys, f"--algorithm.{name}")
    return spec._replace(observation_space=space)
