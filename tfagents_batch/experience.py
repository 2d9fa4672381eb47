"""Protocols of experience: sources, the settings that open them, and their extras."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import tensorflow as tf

from tfagents_batch.devices.placement import Placement
from tfagents_batch.interfaces import Algorithm, Env, Policy
from tfagents_batch.metrics import Metrics
from tfagents_batch.types import Collected, EnvSpec, RemotePlan, Trajectory


@runtime_checkable
class Source(Protocol):
    """A tf.Module that provides experience; its variables are its state.

    One with environments has ``actor``, the policy that selects actions.

    Attributes:
      envs: the environments that its programs step; none for logged data.
      compilable: whether it can run under XLA.
    """

    envs: tuple[Env, ...]
    compilable: bool

    def collect(self, seed, step) -> Collected:
        """Step environments, and say how much and how many updates are due.

        Args:
          seed: int or int32 scalar, different in every call.
          step: i64 ``[]``, environment steps of the run.
        """
        ...

    def sample(self, collected: Collected, seed, step) -> Trajectory:
        """Return the trajectory of one update; called ``collected.updates`` times."""
        ...

    def feedback(self, priority: tf.Tensor) -> None:
        """Take the priorities of the latest sample from its update."""
        ...

    def named_variables(self) -> dict[str, Any]:
        """Return all its variables by name, and those of sources inside it."""
        ...


@runtime_checkable
class HostSource(Protocol):
    """Experience that arrives by Python: predictors, a stream, a pool of workers.

    A program fetches one batch ahead, on a thread, while a compiled program updates. If
    it ``Stores`` what it fetches, it also has ``sample`` and ``feedback`` of a
    ``Source``; a batch is then one trajectory, K = 1.

    Attributes:
      envs: the environments that it steps itself; none for logged data.
      compilable: whether what it runs itself can be under XLA.
    """

    envs: tuple[Env, ...]
    compilable: bool

    def start(self, compiled: bool) -> None:
        """Prepare, once, before the first ``fetch``.

        Args:
          compiled: whether XLA should compile what it runs itself.
        """
        ...

    def fetch(self, step: int) -> Collected:
        """Wait for experience and return it; called on a thread.

        Args:
          step: progress of the run.

        Returns:
          What the next K updates learn from, K = ``updates``: numbers are Python's, and
          the trajectory has those of all updates, ``[K, T+1 or T, B, ...]``. Another
          shape means another program, which is compiled once.

        Raises:
          Exception: whatever ended the source, as it is. Also after ``close``.
        """
        ...

    def publish(self, policy: Policy) -> None:
        """Offer new weights to those who act elsewhere: at first, after each update."""
        ...

    def report(self, seconds: float) -> Metrics:
        """Return metrics since the last report, in calls that took ``seconds``."""
        ...

    def check(self) -> None:
        """Raise the exception that has ended the source, if there is one."""
        ...

    def traces(self) -> int:
        """Return how often a program of its own was traced; 1 if there is none."""
        ...

    def named_variables(self) -> dict[str, Any]:
        """Return what a checkpoint has of it, by name."""
        ...

    def close(self) -> None:
        """End all that it has started, and a ``fetch`` that waits."""
        ...


@runtime_checkable
class Stores(Protocol):
    """Source that stores what was collected, on the device that updates."""

    def store(self, collected: Collected, step) -> Collected:
        """Store it and say how many updates are due; ``step`` is as of ``collect``."""
        ...

    def sample(self, collected: Collected, seed, step) -> Trajectory:
        """Return a batch of what was stored, see ``Source.sample``."""
        ...

    def feedback(self, priority: tf.Tensor) -> None:
        """Take the new priorities of the batch before, see ``Source.feedback``."""
        ...


@runtime_checkable
class OwnFile(Protocol):
    """Source with large variables, saved in files of their own.

    Attributes:
      config: settings, with ``save_every`` in seconds.
    """

    config: Any

    def named_variables(self) -> dict[str, Any]: ...

    def check_numbers(self, numbers: Mapping[str, Any]) -> None:
        """Raise a ValueError if saved values of variables without axes make no sense.

        Called before anything is restored.
        """
        ...

    def interrupt(self) -> None:
        """Mark a break: variables were restored, but the environments start anew."""
        ...

    def postpone(self, step: int) -> int:
        """Return after how many steps updates begin, if nothing could be restored."""
        ...


class Experience(Protocol):
    """Frozen settings of one kind of experience: the door for all that is learned from.

    ``sources.REGISTRY`` has those of this package; ``train(source=...)`` takes any
    other one. It may also satisfy the protocols after this one.

    Attributes:
      name: prefix of its flags and settings, such as "rollout".
      kind: what it gives, "rollouts", "windows" or "rows"; see ``Accepts``.
      unit: unit of the run's counter, "env steps" or "gradient steps".
      program: "synchronous" if it opens a ``Source``, "host" for a ``HostSource``.
      beside: number of programs that it runs beside an update.
      takes_turns: whether collecting and updating take turns on one trajectory.
    """

    name: str
    kind: str
    unit: str
    program: str
    beside: int
    takes_turns: bool

    def check(self, run: Any) -> Experience:
        """Return the checked settings.

        Args:
          run: config of the run, whose ``settings`` are checked already. What the
            algorithm accepts is ``run.settings.accepts()[kind]``.

        Raises:
          UserError: for what cannot be, before anything starts.
        """
        ...

    def environments(self, recipe: Any, run: Any) -> tuple[tuple[Env, ...], EnvSpec]:
        """Create the environments to step.

        Args:
          recipe: ``envs.recipe.EnvRecipe`` of the user's environment.
          run: config of the run.

        Returns:
          The environments, none for logged data, and the spaces that the agent is
          created for, with the number of all environments.

        Raises:
          UserError: if it cannot give what is accepted, in these environments.
          EnvError: if they cannot be created.
        """
        ...

    def transitions(self, num_envs: int, max_episode_steps: int | None) -> int:
        """Return the largest number of transitions of an update; it sets threads."""
        ...

    def open(
        self,
        envs: tuple[Env, ...],
        algorithm: Algorithm,
        seed: int,
        run: Any,
        placement: Placement,
    ) -> Source | HostSource:
        """Start the environments and return the source; a host source for "host".

        Args:
          envs: from ``environments``.
          algorithm: the algorithm that learns.
          seed: seed of environments and actions; another one after a resume.
          run: config of the run.
          placement: where variables are created: those of environments and of the
            policy that acts with ``collecting``, those of storage with ``updating``.
            On two devices the policy that acts is one of its own.
        """
        ...


@runtime_checkable
class Evaluates(Protocol):
    """Experience that evaluates an agent by itself, if there is no environment.

    The evaluator is one like ``training.evaluate.Evaluator``. The score of its results
    chooses the best checkpoint.
    """

    def evaluator(self, algorithm: Algorithm, placement: Placement) -> Any: ...


@runtime_checkable
class NeedsMemory(Protocol):
    """Experience that is stored on the device that updates.

    The method raises a UserError if its memory does not suffice.
    """

    def check_memory(self, spec: EnvSpec, run: Any, placement: Placement) -> None: ...


@runtime_checkable
class HasRemotePlan(Protocol):
    """Experience that a pool's workers can collect.

    The plan is for workers that each have one of ``parts`` equal parts of the
    environments. The method raises a UserError for a setting that means nothing there.
    """

    def remote_plan(self, run: Any, parts: int) -> RemotePlan: ...


@runtime_checkable
class Fingerprinted(Protocol):
    """Experience from data; a run is resumed only with those that it began with.

    Attributes:
      fingerprint: text that changes with the data; None if the settings name none.
    """

    @property
    def fingerprint(self) -> str | None: ...


@runtime_checkable
class KnowsTrainingRows(Protocol):
    """Experience that tells which logged episodes training sees.

    A policy is not judged by them, see ``logged.seen``. Without this, a
    source of the user's own may have seen all of them, and ``decide`` cannot tell. None
    says that there are no logged episodes.
    """

    def training_rows(self) -> dict[str, Any] | None: ...


@runtime_checkable
class Scores(Protocol):
    """Experience from data whose reference scores say how good a return is.

    The method takes a mean return of an evaluation. It returns None if there are none.
    """

    def normalized_score(self, mean_return: float) -> float | None: ...


@runtime_checkable
class Located(Protocol):
    """Experience from data in a folder.

    The method returns the settings with the absolute path of the newest data, which the
    run then keeps.
    """

    def located(self) -> Experience: ...


@runtime_checkable
class NamesRows(Protocol):
    """Experience from rows: names of their actions, and ids of their features.

    The method raises a UserError if the rows cannot be read.
    """

    def names(self) -> tuple[tuple[str, ...], tuple[int, ...]]: ...
