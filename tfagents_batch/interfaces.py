"""Protocols between the parts of the package, with their contracts.

Training is ``algorithm.update(source(seed), seed)`` in a loop. A ``seed`` is an int or
an int32 scalar tensor; ``seeds.py`` derives the keys of stateless ops from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import tensorflow as tf

from tfagents_batch.types import EnvSpec, Nest, TimeStep, Trajectory

State = Any
Metrics = dict[str, tf.Tensor]  # name: scalar, or f32 [n] for a histogram


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

    def step(self, state: State, action: Nest) -> tuple[State, TimeStep]:
        """Step every row; a row that ended its episode ignores its action and restarts.

        It never aborts a program: a failed row is returned with both ``first`` and
        ``truncated`` set (so not ``valid``), its last observation and reward 0.

        Args:
          state: from the previous ``init`` or ``step``.
          action: nest of ``[B, ...]``; Box actions are clipped to finite bounds.
        """

    def ok(self, state: State) -> tf.Tensor:
        """Return bool ``[]``: false if a stop or failure voids the iteration."""


@runtime_checkable
class ManagedEnv(Env, Protocol):
    """Environment that owns more than tensors: processes, devices, connections."""

    def check(self) -> None:
        """Raise the failure of a program that has returned; not for use in a graph.

        Raises:
          EnvError: the failure, if ``ok`` was false because of one.
          Stopped: if ``stop`` ended the program.
        """

    def stop(self) -> None:
        """Make every step return at once with ``ok`` false; any thread may call it."""

    def close(self) -> None:
        """Free all resources. The creator of the environment calls it, maybe twice."""

    def events(self) -> list[dict]:
        """Return the events since the last call: dicts of ``event`` and its fields."""

    def metrics(self) -> dict[str, float]:
        """Return counters since the last call, ``{"group/name": number}``."""


@runtime_checkable
class Distribution(Protocol):
    """Batch of distributions over actions; see ``ops/distributions/families.py``."""

    @property
    def params(self) -> dict[str, tf.Tensor]:
        """Parameter tensors, ``[..., n]`` each, as recorded in a trajectory."""

    def with_params(self, params: dict[str, tf.Tensor]) -> Distribution:
        """Return a distribution of the same family with other parameters."""

    def sample(self, noise: tf.Tensor) -> tf.Tensor: ...

    def mode(self) -> tf.Tensor: ...

    def log_prob(self, action: tf.Tensor) -> tf.Tensor: ...

    def entropy(self) -> tf.Tensor: ...

    def kl(self, other: Distribution) -> tf.Tensor:
        """Return KL(self || other) in closed form."""


class ActorCriticHeads(NamedTuple):
    """Outputs of an actor-critic network for a batch of states.

    Attributes:
      policy: Distribution over ``[...]`` rows.
      value: f32 ``[...]``.
    """

    policy: Distribution
    value: tf.Tensor


class Network(Protocol):
    """A keras.Model of observations that takes and returns its recurrent state.

    Attributes:
      convolves: whether the network contains a convolution.
    """

    convolves: bool

    def initial_state(self, batch: int) -> Nest:
        """Return the state of ``batch`` rows at the start; ``()`` if feed-forward."""

    def __call__(self, timestep: TimeStep, state: Nest) -> tuple[Any, Nest]:
        """Return the heads of one step ``[B, ...]`` and the next state.

        The caller has already reset the state of rows with ``first``.
        """

    def unroll(self, steps: TimeStep, state: Nest) -> tuple[Any, Nest]:
        """Return the heads of ``[T, B, ...]`` steps; ``first`` resets the state."""

    def extra_loss(self) -> tf.Tensor:
        """Return the loss that layers added in the last call, f32 ``[]``; read once."""


@runtime_checkable
class Actor(Protocol):
    """Methods that a rollout needs to select actions."""

    def initial_state(self, batch: int) -> Nest:
        """Return the acting state of ``batch`` rows, such as recurrent state."""

    def noise(self, shape, seed) -> Nest:
        """Draw all exploration noise for leading axes ``shape`` in one op."""

    def act(
        self, timestep: TimeStep, state: Nest, noise: Nest, explore: bool
    ) -> tuple[Nest, dict[str, Nest], Nest]:
        """Select actions for ``[B, ...]`` steps.

        Returns:
          action ``[B, ...]``, behavior ``{name: [B, ...]}``, next acting state.
        """


class Limit(NamedTuple):
    """Limit of a metric; an alarm is raised when the metric stays beyond it.

    NaN is beyond every limit.

    Attributes:
      name: one word for the alarm.
      metric: log name; lines of metrics without it are ignored.
      text: the observation, why it matters and what to try. Metrics of the line are
        filled in by name, as in "a KL of {policy/approx_kl:.3g} nats".
      above, below: the limits; values equal to them are healthy.
      lines: number of consecutive lines beyond the limit before the alarm.
      part: fraction of the run that these lines have to span.
      at_once: a value above it raises the alarm at its first line.
      when: function of a line beyond the limit; False ignores that line.
    """

    name: str
    metric: str
    text: str
    above: float = math.inf
    below: float = -math.inf
    lines: int = 1
    part: float = 0.0
    at_once: float = math.inf
    when: Callable[[Mapping[str, float]], bool] = lambda line: True


@runtime_checkable
class Algorithm(Actor, Protocol):
    """A tf.Module that learns from trajectories; final, never subclassed.

    Its constructor is called with ``(config, spec, network=None)``. Its frozen config
    has a method ``check() -> Config``, which raises ``UserError`` and needs no
    environment.

    Attributes:
      config: checked settings.
      step: int64 ``[]`` variable, number of transitions trained on. ``update`` advances
        it; runs count it and schedules follow it.
      compilable: whether XLA makes ``update`` faster; false also if XLA cannot.
      alarms: limits of its metrics that raise alarms.

    Optional members:
      compile_parts(on: bool): called before ``update`` is traced; whether XLA compiles
        the parts of ``update`` that it makes faster.
      several_seeds: bool, false by default; whether several seeds can train as one
        program. Then ``act`` and ``update`` may assign variables only outside of loops
        and branches, or inside those of ``ops.carried``.
    """

    config: Any
    step: tf.Variable
    compilable: bool
    alarms: tuple[Limit, ...]

    def update(self, trajectory: Trajectory, seed) -> Metrics:
        """Train on one trajectory; means are over its mask."""

    def named_variables(self) -> dict[str, Any]:
        """Return all state, ``{name: variable}``, as saved in a checkpoint.

        Names are the same in every process. Those that begin with ``optimizer/`` or
        ``algorithm/`` are needed only for training: a run that starts from the weights
        of another run initializes them again.
        """


@runtime_checkable
class Source(Protocol):
    """A tf.Module that collects trajectories; its variables hold its position.

    Attributes:
      env: environment that it steps.
      compilable: whether it can run under XLA.

    Optional is ``metrics() -> Metrics``: metrics of the most recent trajectory, read
    like ``ok``.
    """

    env: Env
    compilable: bool

    def __call__(self, seed) -> Trajectory: ...

    def ok(self) -> tf.Tensor:
        """Return bool ``[]``: false if the last trajectory is void and must be ignored.

        It is read in the same program, after the call.
        """
