"""Experience of asynchronous training: pieces that predictors collect for a queue.

A predictor is a thread with environments and a policy of its own. It selects actions
for those environments that are ready, whatever the updates do meanwhile. So the policy
that acted may be older than the one that learns from it; the capacity of the queue
bounds by how much. ``training/programs/asynchronous.py`` runs the threads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from tfagents_batch import config
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Actor, Algorithm, Policy
from tfagents_batch.sources.async_rollout import AsyncRollout
from tfagents_batch.types import EnvSpec


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of predictors, trainers and the queue between them."""

    overlaps: ClassVar[bool] = False  # collecting goes on beside updates anyway
    groups_of_one: ClassVar[bool] = True  # each worker is a group of its own
    waits_for_name: ClassVar[str] = "queue.predict_rows"

    length: int = option(
        5, "largest number of steps of an environment in a piece", least=1, most=10_000
    )
    predictors: int = option(
        1, "threads that select actions, each for its share of environments", least=1
    )
    predict_rows: int | None = option(
        None,
        "environments whose actions are selected at once, the first that are ready; "
        "none: half of a predictor's",
        least=1,
    )
    program_pieces: int | None = option(
        None,
        "pieces that a predictor collects in one program, a power of two; more save "
        "time between programs and raise the lag. none: 8, or 1 without XLA",
        least=1,
        most=1024,
    )
    trainers: int = option(1, "threads that join pieces to batches", least=1, most=16)
    train_rows: int = option(
        40,
        "rows of an update, at least: those of the environments that took all steps. A "
        "row has a transition, unless an episode restarts there",
        least=1,
    )
    capacity: int | None = option(
        None,
        "transitions that may wait for an update, or those of one program if these are "
        "more; bounds the lag. none: 160, or train_rows if that is more",
        least=1,
    )
    adjust: bool = option(
        False,
        "adjust the numbers of agents, predictors, trainers and rows during the run; "
        "num_envs, queue.predictors and queue.trainers are then the largest",
    )
    adjust_seconds: float = option(
        20.0, "seconds of a measurement of adjusting", above=0
    )
    adjust_lag: float = option(
        50.0, "mean lag above which a setting is less good, for adjusting", least=0
    )
    max_lag: int | None = option(
        None,
        "updates since a program began, above which its pieces are dropped before they "
        "are joined. none: no limit",
        least=0,
    )

    def changed(self, overrides: Mapping[str, Any]) -> Config:
        """Return the settings with overrides.

        Raises:
          UserError: for an unknown setting or a wrong value.
        """
        return config.replace(self, dict(overrides), "queue.")

    def check(self, num_envs: int) -> Config:
        """Return the checked settings.

        Raises:
          UserError: for a setting that is invalid.
        """
        checked = config.check(self, "queue.")
        if num_envs % checked.predictors:
            raise UserError(
                f"queue.predictors is {checked.predictors}; expected a divisor of the "
                f"{num_envs} environments, because each has the same number"
            )
        if checked.room < checked.train_rows:
            raise UserError(
                f"queue.capacity is {checked.capacity}; expected at least "
                f"queue.train_rows, {checked.train_rows}"
            )
        pieces = checked.program_pieces or 1
        if pieces & (pieces - 1):
            raise UserError(
                f"queue.program_pieces is {pieces}; expected a power of two"
            )
        return checked

    @property
    def room(self) -> int:
        """The number of transitions that may wait for an update."""
        return self.capacity or max(160, self.train_rows)

    def pieces(self, compilable: bool) -> int:
        """Return the number of pieces of a predictor's program."""
        return self.program_pieces or (8 if compilable else 1)

    def waits_for(self, num_envs: int, workers: int) -> int:
        """Return the environments whose actions are selected at once.

        Args:
          num_envs: environments of a predictor.
          workers: their number of worker processes.
        """
        if self.predict_rows is not None:
            return self.predict_rows
        size = num_envs // max(workers, 1)
        return max(workers // 2, 1) * size

    def check_fits(self, spec: EnvSpec, algorithm: Algorithm) -> None:
        """Accept any environments and algorithm."""

    def collected(self, num_envs: int, max_episode_steps: int | None) -> int:
        """Return the number of transitions of an update."""
        del num_envs, max_episode_steps
        return self.train_rows


class Queue(tf.Module):
    """Predictors' sources and policies; the program runs them.

    Args:
      parts: a source of each predictor.
      published: policy that predictors copy the newest weights from.
      config: checked settings.

    Attributes:
      policies: the policy of each predictor.
      followers: all policies that copy the weights that learn.
      joined: number of pieces of an update, a power of two.
    """

    def __init__(
        self, parts: Sequence[AsyncRollout], published: Policy, config: Config
    ):
        super().__init__()
        self.parts, self.published, self.config = parts, published, config
        self.policies = [part.actor for part in parts]
        self.followers = [*self.policies, published]
        self.envs = tuple(part.env for part in parts)
        part = parts[0]
        rows = least_rows(part.batch, part.wait_for, part.size, part.length)
        fewest = -(-config.train_rows // rows)
        self.joined = 1 << (fewest - 1).bit_length()

    @property
    def compilable(self) -> bool:
        """True if predictors can run under XLA."""
        return all(part.compilable for part in self.parts)

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return no variables: what is in flight is not saved."""
        return {}


def least_rows(agents: int, wait_for: int, size: int, length: int) -> int:
    """Return the smallest number of rows of a piece.

    When it ends, fewer than ``wait_for`` of the agents lack steps, and the ``size``
    agents of a worker are at the same step.
    """
    return (agents - wait_for + size) * length


def make(
    config: Config,
    env: Any,
    policy: Actor,
    seed: int,
    algorithm: Algorithm,
    info: Sequence[str] = (),
) -> Queue:
    """Return the source of an algorithm; arguments as in ``on_policy.make``.

    Args:
      config: settings of the source.
      env: ``Fleet`` with as many parts as predictors.
      policy: unused: each predictor has a policy of its own.
      seed: seed of the environments.
      algorithm: creates the policies.
      info: info columns to report.
    """
    del policy
    parts = []
    for index, part in enumerate(env.parts):
        wait_for = config.waits_for(part.spec.num_envs, part.num_workers)
        start = (seed + 7919 * index) % 2**31
        policy = algorithm.make_policy()
        parts.append(AsyncRollout(part, policy, config.length, wait_for, start, info))
    return Queue(parts, algorithm.make_policy(), config)
