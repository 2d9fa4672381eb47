"""Shared data types: steps, trajectories, and what the parts pass to each other.

Axes: ``T`` actions of a trajectory, ``B`` streams (environments). All data is
time-major.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import gymnasium
import tensorflow as tf

from tfagents_batch.clocks import Ratio
from tfagents_batch.metrics import Metrics

Nest = Any
"""A tensor, or a dict, a tuple or a NamedTuple of nests."""
# In behavior: i64 [T, B], the version of the policy that acted.
VERSION = "version"


class TimeStep(NamedTuple):
    """Step of a batch of environments; ``[T+1, B, ...]`` in a trajectory.

    A row whose episode ended restarts on the next step: that step's action is
    ignored, its row has ``first`` set and reward 0 (dm_env's step after LAST,
    Gymnasium's NEXT_STEP).

    Attributes:
      observation: nest of ``[B, ...]``, s_t.
      reward: f32 ``[B]``, r_t, the reward of a_{t-1}; 0 where first.
      first: bool ``[B]``, s_t starts an episode.
      terminated: bool ``[B]``, s_t is terminal: its value is 0.
      truncated: bool ``[B]``, the episode was cut off: bootstrap from its value.
      info: ``{name: [B]}``, the columns declared in ``EnvSpec.info``; always
        ``episode_return`` f32 (of raw rewards) and ``episode_length`` i32, which
        are defined where ``last & valid``.
    """

    observation: Nest
    reward: tf.Tensor
    first: tf.Tensor
    terminated: tf.Tensor
    truncated: tf.Tensor
    info: dict[str, tf.Tensor]

    @property
    def last(self) -> tf.Tensor:
        """bool ``[..., B]``: s_t ends its episode."""
        return self.terminated | self.truncated

    @property
    def valid(self) -> tf.Tensor:
        """bool ``[..., B]``: false for a failed row, which is both first and last."""
        return ~(self.first & self.last)


class Trajectory(NamedTuple):
    """``T+1`` steps and the ``T`` actions between them, over ``B`` streams.

    Attributes:
      steps: TimeStep of ``[T+1, B, ...]``.
      action: nest of ``[T, B, ...]``; ``action[t]`` leads from step t to t+1.
      behavior: ``{name: [T, B, ...]}``, values recorded by the acting policy, such as
        ``log_prob``; logged rows have ``discount``, and ``next_action`` for SARSA.
      state: nest of ``[B, ...]``, acting state before s_0.
      weight: f32 ``[B]`` importance weights, or ``()``.
    """

    steps: TimeStep
    action: Nest
    behavior: dict[str, Nest]
    state: Nest = ()
    weight: Nest = ()

    @property
    def reward(self) -> tf.Tensor:
        """f32 ``[T, B]``: r_{t+1}, the reward of a_t."""
        return self.steps.reward[1:]

    def discount(self, gamma: float | tf.Tensor) -> tf.Tensor:
        """f32 ``[T, B]``: gamma where s_{t+1} has a value, 0 where it is terminal.

        ``behavior["discount"]``, f32 ``[T, B]``, takes the place of gamma. Rows of a
        timeline have it, whose steps are several, or last for some time.
        """
        factor = self.behavior.get("discount", gamma)
        return factor * tf.cast(~self.steps.terminated[1:], tf.float32)

    @property
    def mask(self) -> tf.Tensor:
        """bool ``[T, B]``: true where a_t led from s_t to s_{t+1}.

        False for ignored actions (restart rows), padding, and transitions into or
        out of failed rows.
        """
        return ~(self.steps.last[:-1] | self.steps.first[1:])

    @property
    def real(self) -> tf.Tensor:
        """bool ``[T+1, B]``: true where an environment was observed.

        False for failed rows and for the padding after an episode, which repeats its
        last row. Statistics of observations must ignore both.
        """
        ended, first = self.steps.last[:-1], self.steps.first[1:]
        start = tf.ones_like(first[:1])
        return self.steps.valid & tf.concat([start, ~ended | first], 0)

    @property
    def counted(self) -> tf.Tensor:
        """bool ``[T, B]``: observations of the first T rows that statistics count.

        They are real. A source whose streams end early says in ``behavior["counted"]``
        which rows are not the first one of its next trajectory.
        """
        real = self.real[:-1]
        return real & self.behavior["counted"] if "counted" in self.behavior else real


class Collected(NamedTuple):
    """Result of one call of ``Source.collect``.

    Attributes:
      steps: i64 ``[]``, transitions made (mask 1); those of a warm-up count too.
      ok: bool ``[]``, false after a stop or a failure: nothing of it may be learned.
      updates: int32 ``[]``, number K of updates that are due now: 1 for on-policy
        sources, 0 while a replay warms up.
      metrics: ``{name: tensor}`` of what was collected; each episode appears once.
      trajectory: what was collected, for sources that hand it to the update as it is;
        otherwise ``()``.
    """

    steps: tf.Tensor | int  # numbers of a HostSource are Python's
    ok: tf.Tensor | bool
    updates: tf.Tensor | int
    metrics: dict[str, tf.Tensor]
    trajectory: Any = ()  # a Trajectory, or nothing

    @classmethod
    def whole(
        cls, trajectory: Trajectory, ok: tf.Tensor, metrics: dict[str, Any]
    ) -> Collected:
        """Return a trajectory for one update, which uses it as it is."""
        steps = tf.reduce_sum(tf.cast(trajectory.mask, tf.int64))
        updates = tf.cast(ok, tf.int32)
        return cls(tf.where(ok, steps, 0), ok, updates, metrics, trajectory)


class EnvSpec(NamedTuple):
    """Spaces and sizes of a batch of environments.

    Attributes:
      num_envs: B, number of environments.
      observation_space, action_space: spaces of one environment.
      info: ``{name: numpy dtype name}`` of the numeric info columns.
      max_episode_steps: the environments' own time limit, None if unknown.
    """

    num_envs: int
    observation_space: gymnasium.Space
    action_space: gymnasium.Space
    info: dict[str, str]
    max_episode_steps: int | None = None


class ActorCriticHeads(NamedTuple):
    """Outputs of an actor-critic network for a batch of states.

    Attributes:
      policy: ``interfaces.Distribution`` over ``[...]`` rows.
      value: f32 ``[...]``.
      features: f32 ``[..., F]``, features by which noise is a function of the state;
        ``()`` without such noise.
    """

    policy: Any
    value: tf.Tensor
    features: Nest = ()


class ActionValueHeads(NamedTuple):
    """Outputs of a network of action values for a batch of states.

    Attributes:
      q: f32 ``[..., A]``, Q(s, a) of every action, or choice, see ``ops.branches``.
      outputs: f32 ``[..., A, n]``, distributions of returns whose means are ``q``, see
        ``ops/value_distributions.py``; the same as ``q`` if n is 1.
      allowed: bool ``[..., A]``, actions that a greedy policy may take, invalid ones
        aside; ``()`` if it may take all.
    """

    q: tf.Tensor
    outputs: tf.Tensor
    allowed: tf.Tensor | tuple = ()


class Remembered(NamedTuple):
    """Observations ``[..., ...]`` with what a recurrent core remembers up to them.

    Attributes:
      features: f32 ``[..., units]``, outputs of the core.
      observation: the observations, for action masks and features of actions.
    """

    features: tf.Tensor
    observation: Nest


class Decision(NamedTuple):
    """Decisions of a policy in N states, and what it knows of these states.

    Attributes:
      action: ``[N, ...]``, the mode, or a sample of a Box.
      state: for the next decision, see ``Policy.memory``.
      values: f32 ``[N, A]`` "values" of actions or choices, or ``[N]`` "value" of
        states; or none.
      random: ``interfaces.Distribution`` of random decisions, if actions are not a Box:
        uniform for policies that explore by epsilon, else the policy itself.
      log_density: f32 ``[N]``, of a sample of a Box; None of a mode.
    """

    action: tf.Tensor
    state: Nest
    values: Mapping[str, tf.Tensor]
    random: Any = None
    log_density: tf.Tensor | None = None


class Updated(NamedTuple):
    """Result of one update.

    Attributes:
      metrics: see ``metrics.py``. ``grad/updates`` is the number of optimizer steps.
      priority: f32 ``[N]``, absolute errors of the sampled windows, for a prioritised
        replay; otherwise ``()``.
    """

    metrics: Metrics
    priority: tf.Tensor | tuple = ()


class Assessment(NamedTuple):
    """Judgement of an algorithm on logged rows, without learning from them.

    Attributes:
      q: f32 ``[N, A]``, values of all actions; ``()`` if it learns none.
      target: f32 ``[N]``, target of the value of the logged action, NaN where it is not
        known; ``()`` likewise.
      probability: f32 ``[N, A]``, with which the learned policy is expected to take
        every action; 0 and 1 if it always takes the best one.
    """

    q: tf.Tensor | tuple
    target: tf.Tensor | tuple
    probability: tf.Tensor


class BoxAssessment(NamedTuple):
    """Judgement of an algorithm on logged rows with Box actions.

    Attributes:
      q: f32 ``[N]``, value of the logged action; ``()`` if it learns none.
      target: f32 ``[N]``, its target, NaN where it is not known; ``()`` likewise.
      log_density: f32 ``[N]``, of the logged action under the learned policy; ``()`` if
        the policy has no density.
    """

    q: tf.Tensor | tuple
    target: tf.Tensor | tuple
    log_density: tf.Tensor | tuple


class UpdateSize(NamedTuple):
    """Size of the largest minibatch of an update, by which threads are chosen.

    Attributes:
      rows: transitions of a minibatch.
      hidden: units of the hidden layers.
    """

    rows: int
    hidden: tuple[int, ...]


class Rollouts(NamedTuple):
    """Whole rollouts, each for one update.

    Attributes:
      whole_episodes: reason why they have to be whole episodes; empty otherwise.
    """

    whole_episodes: str = ""


class Windows(NamedTuple):
    """Random windows of stored steps.

    Attributes:
      batch_size: windows of an update.
      length: steps of a window, one more than its actions.
      ratio: updates per environment step, and the step of the first one.
      n_step, gamma: number of rewards of a target, and discount factor.
      no_rows: reason why logged rows cannot be among the windows; empty if they can.
      recorded: numbers of the recurrent state that is stored with every step.
    """

    batch_size: int
    length: int
    ratio: Ratio
    n_step: int = 1
    gamma: float = 1.0
    no_rows: str = ""
    recorded: int = 0


class Rows(NamedTuple):
    """Random rows of logged data: trajectories of one action.

    Attributes:
      batch_size: rows of an update.
      gamma: discount factor of the values that are learned; None if there are none.
      meaningless: names of settings that only collecting uses.
    """

    batch_size: int
    gamma: float | None = None
    meaningless: tuple[str, ...] = ()


Accepts = Mapping[str, Rollouts | Windows | Rows]  # by kind of experience
# Name of a source in ``sources.REGISTRY``, and the settings beside its defaults.
DefaultSource = tuple[str, Mapping[str, Any]]


class RemotePlan(NamedTuple):
    """Plan by which workers elsewhere collect what a source would.

    Attributes:
      order: "in turn" with updates, one rollout "ahead" of them, or "free" of them.
      needed: rollouts of an update.
      length: T of a rollout; 0 for whole episodes, whose limit sets it.
      streams: B of a rollout.
      marks: whether ``behavior["replaced"]`` says which streams do not continue those
        of the rollout before, because their worker has just started.
      whole: whether streams are whole episodes.
    """

    order: Literal["in turn", "ahead", "free"]
    needed: int
    length: int
    streams: int
    marks: bool = False
    whole: bool = False
