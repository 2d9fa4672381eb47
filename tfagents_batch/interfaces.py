"""The protocols the parts meet through, with their contracts.

``algorithm.update(source(seed), seed)`` is the framework. A ``seed`` is an int or an
int32 scalar tensor; ``seeds.py`` derives the keys of stateless ops from it.
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
    """A batch of environments as ops, functional: state goes in and comes out.

    A state is used once: process-backed environments keep theirs behind an int32
    token that orders the calls, and a stale token is refused.

    Optional are the attributes ``compilable`` (bool, false without it: may ``init`` and
    ``step`` run under XLA?) and ``resumable`` (bool, false without it: is its state
    tensors that say all, so that a checkpoint goes on where it stopped?), and the
    members of ``ManagedEnv``, each on its own: without
    ``check`` there is nothing to raise, without ``stop`` a program runs to its end,
    without ``metrics`` there are no counters.
    """

    spec: EnvSpec

    def init(self, seed) -> tuple[State, TimeStep]:
        """Start every environment. Row i depends on ``(seed, i)`` only.

        Args:
          seed: int or int32 scalar tensor.
        """

    def step(self, state: State, action: Nest) -> tuple[State, TimeStep]:
        """Step every row; a row that was last ignores its action and restarts.

        Never aborts a program: a failed row comes back first and truncated at once
        (not ``valid``), with its last observation and reward 0.

        Args:
          state: from the previous ``init`` or ``step``.
          action: nest of ``[B, ...]``; Box actions are clipped to finite bounds.
        """

    def ok(self, state: State) -> tf.Tensor:
        """bool ``[]``: false after a stop, or a fault that voids the iteration."""


@runtime_checkable
class ManagedEnv(Env, Protocol):
    """An environment that holds more than tensors: processes, devices, connections."""

    def check(self) -> None:
        """Called when a program has returned; not from within a graph.

        Raises:
          EnvError: the fault that ``ok`` could only flag, if there was one.
          Stopped: if ``stop`` ended the program.
        """

    def stop(self) -> None:
        """Make every step return at once, ``ok`` false; from any thread, and often."""

    def close(self) -> None:
        """Free everything; whoever made the environment calls it, maybe twice."""

    def events(self) -> list[dict]:
        """What happened since the last call, dicts of ``event`` and what it says."""

    def metrics(self) -> dict[str, float]:
        """Counters of the interval since the last call, ``{"group/name": number}``."""


@runtime_checkable
class Distribution(Protocol):
    """A batch of distributions over actions; see ``ops/distributions/families.py``."""

    @property
    def params(self) -> dict[str, tf.Tensor]:
        """The tensors that define it, ``[..., n]`` each; what behavior records."""

    def with_params(self, params: dict[str, tf.Tensor]) -> Distribution:
        """The same family with other parameters."""

    def sample(self, noise: tf.Tensor) -> tf.Tensor: ...

    def mode(self) -> tf.Tensor: ...

    def log_prob(self, action: tf.Tensor) -> tf.Tensor: ...

    def entropy(self) -> tf.Tensor: ...

    def kl(self, other: Distribution) -> tf.Tensor:
        """KL(self || other), closed form."""


class ActorCriticHeads(NamedTuple):
    """What an actor-critic network says of a batch of states.

    Attributes:
      policy: Distribution over ``[...]`` rows.
      value: f32 ``[...]``.
    """

    policy: Distribution
    value: tf.Tensor


class Network(Protocol):
    """A keras.Model over observations that keeps recurrent state outside itself.

    Attributes:
      convolves: whether a convolution is among its operations.
    """

    convolves: bool

    def initial_state(self, batch: int) -> Nest:
        """State of ``batch`` rows before their first step; ``()`` if feed-forward."""

    def __call__(self, timestep: TimeStep, state: Nest) -> tuple[Any, Nest]:
        """Heads of one step ``[B, ...]`` and the next state.

        The state is reset before where ``first``: acting hands on what it got.
        """

    def unroll(self, steps: TimeStep, state: Nest) -> tuple[Any, Nest]:
        """Heads of ``[T, B, ...]`` steps; the state is reset where ``first``."""

    def extra_loss(self) -> tf.Tensor:
        """f32 ``[]``: what layers added to the loss in the newest call, read once."""


@runtime_checkable
class Actor(Protocol):
    """What a rollout needs to act."""

    def initial_state(self, batch: int) -> Nest:
        """Acting state of ``batch`` rows: recurrent state, running returns, ..."""

    def noise(self, shape, seed) -> Nest:
        """All exploration noise for leading axes ``shape``, drawn in one op."""

    def act(
        self, timestep: TimeStep, state: Nest, noise: Nest, explore: bool
    ) -> tuple[Nest, dict[str, Nest], Nest]:
        """Choose actions for ``[B, ...]`` steps.

        Returns:
          action ``[B, ...]``, behavior ``{name: [B, ...]}``, next acting state.
        """


class Limit(NamedTuple):
    """A limit that a metric keeps in healthy runs; beyond it for long is an alarm.

    NaN is beyond every limit.

    Attributes:
      name: one word for the alarm.
      metric: log name. A line of metrics without it says nothing.
      text: what is seen, why it matters, what to try. Metrics of the line are filled in
        by name, as in "a KL of {policy/approx_kl:.3g} nats".
      above, below: the limits, which healthy values may reach.
      lines: beyond the limit, in a row, before there is an alarm.
      part: of the run that these lines have to span.
      at_once: a value above it is an alarm without more lines.
      when: whether a line of metrics that is beyond the limit counts.
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

    It is made by ``(config, spec, network=None)``. Its frozen config has a method
    ``check() -> Config``, which raises ``UserError`` and needs no environment.

    Attributes:
      config: its settings, checked.
      step: int64 ``[]`` variable, transitions trained on; ``update`` advances it, and
        it is what a run counts and schedules follow.
      compilable: does XLA make ``update`` faster? False also where it cannot.
      alarms: limits of its metrics, by which a run is watched.

    Optional is ``compile_parts(on: bool)``, called before ``update`` is traced: whether
    XLA is to compile those parts of it that it makes faster; and ``several_seeds``
    (bool, false without it: may several seeds be trained as one program? Then ``act``
    and ``update`` assign variables outside of loops and branches, or in those of
    ``ops.carried``).
    """

    config: Any
    step: tf.Variable
    compilable: bool
    alarms: tuple[Limit, ...]

    def update(self, trajectory: Trajectory, seed) -> Metrics:
        """Do all gradient work of one trajectory; means are over its mask."""

    def named_variables(self) -> dict[str, Any]:
        """All state, ``{name: variable}``, named alike in every process: what a
        checkpoint holds.

        Names that begin with ``optimizer/`` or ``algorithm/`` are of what only training
        needs: a run that starts from another one's weights begins it anew.
        """


@runtime_checkable
class Source(Protocol):
    """A tf.Module that makes trajectories; its variables hold where it stands.

    Attributes:
      env: that it steps.
      compilable: may it run under XLA?

    Optional is ``metrics() -> Metrics``: what is to tell of the trajectory just made,
    read as ``ok`` is.
    """

    env: Env
    compilable: bool

    def __call__(self, seed) -> Trajectory: ...

    def ok(self) -> tf.Tensor:
        """bool ``[]``: false if the trajectory just made is void and not learned from.

        Read in the same program, after the call.
        """
