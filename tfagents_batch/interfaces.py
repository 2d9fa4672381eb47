"""Protocols between the parts of the package, with their contracts.

Training is a loop of rounds::

    collected = source.collect(seed, step)
    collected = source.store(collected, step)  # if it stores
    step += collected.steps
    for _ in range(collected.updates):
        trajectory = source.sample(collected, seed, step)
        updated = algorithm.update(trajectory, seed, step)
        source.feedback(updated.priority)

A ``seed`` is an int or an int32 scalar tensor; ``seeds.py`` derives the keys of
stateless ops from it. Sources, and the settings that open them, are in
``experience.py``.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import tensorflow as tf

from tfagents_batch.types import ActorCriticHeads as ActorCriticHeads
from tfagents_batch.types import (
    Assessment,
    BoxAssessment,
    Decision,
    EnvSpec,
    Nest,
    TimeStep,
    Trajectory,
    Updated,
)
from tfagents_batch.types import Windows as Windows

State = Any
"""State of a batch of environments: a nest of tensors, which ``step`` uses up."""


@runtime_checkable
class Env(Protocol):
    """Batch of environments as functional ops: each call takes and returns the state.

    A state can be used only once: environments in processes return an int32 token as
    their state, which orders the calls, and refuse an old token.

    Optional attributes, both bool and false by default:
      compilable: whether ``init`` and ``step`` can run under XLA.
      resumable: whether the state is complete as tensors, so that a checkpoint can
        continue from it.

    Each member of ``ManagedEnv`` is optional too: without ``check`` nothing is raised,
    without ``stop`` a program runs to its end, without ``metrics`` there are no
    counters.
    """

    spec: EnvSpec

    def init(self, seed) -> tuple[State, TimeStep]:
        """Start every environment. Row i depends on ``(seed, i)`` only.

        Args:
          seed: int or int32 scalar tensor.
        """
        ...

    def step(self, state: State, action: Nest) -> tuple[State, TimeStep]:
        """Step every row; a row that ended its episode ignores its action and restarts.

        It never aborts a program: a failed row is returned with both ``first`` and
        ``truncated`` set (so not ``valid``), its last observation and reward 0.

        Args:
          state: from the previous ``init`` or ``step``.
          action: nest of ``[B, ...]``; Box actions are clipped to finite bounds.
        """
        ...

    def ok(self, state: State) -> tf.Tensor:
        """Return bool ``[]``: false after a stop or a failure."""
        ...


@runtime_checkable
class ManagedEnv(Env, Protocol):
    """Environment that owns more than tensors: processes, devices, connections."""

    def check(self) -> None:
        """Raise the failure of a program that has returned; not for use in a graph.

        Raises:
          EnvError: the failure, if ``ok`` was false because of one.
          Stopped: if ``stop`` ended the program.
        """
        ...

    def stop(self) -> None:
        """Make every step return at once with ``ok`` false; any thread may call it."""
        ...

    def close(self) -> None:
        """Free all resources. Its creator calls it, once or twice."""
        ...

    def events(self) -> list[dict]:
        """Return the events since the last call: dicts of ``event`` and its fields."""
        ...

    def metrics(self) -> dict[str, float]:
        """Return counters since the last call, ``{"group/name": number}``."""
        ...


@runtime_checkable
class Distribution(Protocol):
    """Batch of distributions over actions; see ``ops/distributions.py``."""

    @property
    def params(self) -> dict[str, tf.Tensor]:
        """Parameter tensors, ``[..., n]`` each, as recorded in a trajectory."""
        ...

    def with_params(self, params: dict[str, tf.Tensor]) -> Distribution:
        """Return a distribution of the same family with other parameters."""
        ...

    def sample(self, noise: Nest) -> Nest: ...

    def mode(self) -> Nest: ...

    def log_prob(self, action: Nest) -> tf.Tensor: ...

    def entropy(self) -> tf.Tensor: ...

    def kl(self, other: Distribution) -> tf.Tensor:
        """Return KL(self || other) in closed form."""
        ...


class Network(Protocol):
    """A keras.Model of observations that takes and returns its recurrent state.

    Attributes:
      convolves: whether the network contains a convolution.
    """

    convolves: bool

    def initial_state(self, batch: int) -> Nest:
        """Return the state of ``batch`` rows at the start; ``()`` if feed-forward."""
        ...

    def __call__(self, timestep: TimeStep, state: Nest) -> tuple[Any, Nest]:
        """Return the heads of one step ``[B, ...]`` and the next state.

        The caller has already reset the state of rows with ``first``.
        """
        ...

    def unroll(self, steps: TimeStep, state: Nest) -> tuple[Any, Nest]:
        """Return the heads of ``[T, B, ...]`` steps; ``first`` resets the state."""
        ...


@runtime_checkable
class Actor(Protocol):
    """Methods that a rollout needs to select actions."""

    def initial_state(self, batch: int) -> Nest:
        """Return the acting state of ``batch`` rows, such as recurrent state."""
        ...

    def noise(self, shape, seed) -> Nest:
        """Draw all exploration noise for leading axes ``shape`` in one op."""
        ...

    def act(
        self, timestep: TimeStep, state: Nest, noise: Nest, step, explore: bool
    ) -> tuple[Nest, dict[str, Nest], Nest]:
        """Select actions for ``[B, ...]`` steps.

        Args:
          timestep: ``[B, ...]``.
          state: acting state, ``[B, ...]``.
          noise: from ``noise``, ``[B, ...]``.
          step: i64 ``[]``, environment steps of the run; schedules of exploration
            follow it.
          explore: explore as in training; otherwise take the best action.

        Returns:
          action ``[B, ...]``, behavior ``{name: [B, ...]}``, next acting state.
        """
        ...


@runtime_checkable
class Policy(Actor, Protocol):
    """A tf.Module with the weights and statistics that acting reads; no optimizer.

    Attributes:
      version: i64 ``[]`` variable, number of updates that its weights have seen. The
        program counts it; checkpoints do not contain it.
    """

    version: tf.Variable

    def assign_from(self, policy: Policy) -> None:
        """Copy every variable of another policy of the same kind, and its version."""
        ...

    def probabilities(self, timestep: TimeStep, state: Nest, step) -> tf.Tensor:
        """Return the probability of every Discrete action as ``act`` explores.

        It is exact: random actions, the warm-up and the action mask are included. It
        is computed on demand and is not part of ``behavior``.

        Args:
          timestep, state, step: what ``act`` gets, ``state`` before it acts.

        Returns:
          f32 ``[B, A]``, column i for the i-th action of the space. Rows sum to 1.
          Invalid actions have 0; in a row without a valid action all are valid. Rows
          whose action is ignored have the probabilities by which it is drawn.

        Raises:
          UserError: while tracing, if actions are not Discrete, or if probabilities
            have no closed form.
        """
        ...

    def log_density(
        self, timestep: TimeStep, state: Nest, action: tf.Tensor, step
    ) -> tf.Tensor:
        """Return the log density of Box actions as ``act`` explores.

        It is exact: noise and the warm-up are included. The density is per unit of the
        environment's actions. Where ``act`` clips noisy actions, a number at a bound
        has a probability, and that takes the place of its density. Noise that depends
        on the past is given ``state``. Noise of scale 0 has no density, so that the
        result is NaN. If noise is a function of the state (gSDE), the density is that
        over all such functions, because one of them has none.

        Args:
          timestep, state, step: as for ``probabilities``.
          action: f32 ``[B, ...]`` as ``act`` returns it: an environment may clip it.

        Returns:
          f32 ``[B]``, in nats, summed over the numbers of an action; -inf for actions
          outside of bounds that ``act`` keeps.

        Raises:
          UserError: while tracing, if actions are not a Box, or if no action has a
            density.
        """
        ...

    def memory(self, batch: int | tf.Tensor, explore: bool) -> Nest:
        """Return the state of ``decide`` before the first step, for a batch.

        Unlike that of ``act``, it has nothing that only training uses.

        Args:
          batch: number of rows, also as a tensor.
          explore: whether ``decide`` gets noise.
        """
        ...

    def decide(
        self, timestep: TimeStep, state: Nest, step, noise: tf.Tensor | None = None
    ) -> Decision:
        """Decide outside of training, for any number of rows, known or not.

        Args:
          timestep: ``[N, ...]``.
          state: see ``memory``.
          step: environment steps of the run; those of its warm-up count as its end.
          noise: f32 ``[N, A]``, standard normal, for sampled actions of a Box; None
            for the mode.

        Raises:
          UserError: while tracing, if sampled actions have no density.
        """
        ...

    def named_variables(self) -> dict[str, Any]:
        """Return ``{"policy/...": variable, "statistics/...": variable}``."""
        ...


class Learner(Protocol):
    """State of training beside the policy: optimizers, target networks, statistics.

    Optional members:
      compile_parts(on: bool): called before ``update`` is traced; whether XLA compiles
        at least the parts of ``update`` that it makes faster.
      histograms() -> Metrics: vectors for the log that depend on variables only, read
        at the end of a call and not in every update.
      observe(trajectory, ok): called with all that was collected, ``[T, B]``, before a
        source stores it, which then gives updates samples of it. Where ``ok``, bool
        ``[]``, is false, nothing of it may change a variable.
    """

    def named_variables(self) -> dict[str, Any]:
        """Return all state, ``{name: variable}``, as saved in a checkpoint.

        Names are the same in every process: those of the policy; ``learner/...`` for
        what only training needs, among it ``learner/optimizer/...``; and ``run/...``
        for what only the same run goes on with, such as a number for each environment.
        A run that starts from the agent of another run initializes only the optimizer
        again.
        """
        ...


@runtime_checkable
class Algorithm(Protocol):
    """A tf.Module that learns from trajectories; final, never subclassed.

    Its constructor is called with ``(config, spec, network=None)``: settings; the spec
    of the environments or rows; and the user's ``keras.Model`` or builder, see
    ``nn.user``, where None stands for the built-in network. It raises ``UserError`` for
    settings, actions or a network that cannot be used. Numbers of the config, made by
    ``config.number``, are read from ``graph.inputs.Inputs`` in ``update`` and in the
    policy, because a stored program is used again with other values. The frozen config
    has these members:

      source: ``DefaultSource`` that it learns from unless the user chooses another one.
      OF_AGENT: names of the settings that change the meaning of saved weights; those
        that change shapes need not be among them.
      check() -> Config: raises ``UserError``; needs no environment.
      accepts() -> Accepts: what it learns from, "rollouts", "windows" or "rows".
      alarms(spec) -> tuple[Limit, ...]: limits of its metrics, see ``metrics.py``;
        None as spec gives those that hold for any environment.
      update_size(transitions) -> UpdateSize: ``transitions`` are those of an update.

    Attributes:
      config: checked settings.
      policy: the policy that learns. It also acts, except beside an update. Its
        network is also the ``network`` of the built-in algorithms.
      learner: what is saved and compiled; it may be the algorithm itself.
      compilable: whether XLA makes ``update`` faster; false also if XLA cannot.
    """

    config: Any
    policy: Policy
    learner: Learner
    compilable: bool

    def make_policy(self) -> Policy:
        """Return another policy of the same kind, with variables of its own."""
        ...

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train on one trajectory; means are over its mask.

        Args:
          trajectory: from ``Source.sample``.
          seed: int or int32 scalar.
          step: i64 ``[]``, environment steps of the run; schedules follow it.
        """
        ...


@runtime_checkable
class Assesses(Protocol):
    """Algorithm that judges logged rows, for reports, without learning from them."""

    def assess(self, trajectory: Trajectory) -> Assessment | BoxAssessment: ...
