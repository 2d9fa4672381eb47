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
stateless ops from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import tensorflow as tf

from tfagents_batch.clocks import Ratio
from tfagents_batch.devices.placement import Placement
from tfagents_batch.metrics import Metrics
from tfagents_batch.types import Collected, EnvSpec, Nest, TimeStep, Trajectory

State = Any
"""State of a batch of environments: a nest of tensors, which ``step`` uses up."""
# In behavior: i64 [T, B], the version of the policy that acted.
VERSION = "version"


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
    """Batch of distributions over actions; see ``ops/distributions/families.py``."""

    @property
    def params(self) -> dict[str, tf.Tensor]:
        """Parameter tensors, ``[..., n]`` each, as recorded in a trajectory."""
        ...

    def with_params(self, params: dict[str, tf.Tensor]) -> Distribution:
        """Return a distribution of the same family with other parameters."""
        ...

    def sample(self, noise: tf.Tensor) -> tf.Tensor: ...

    def mode(self) -> tf.Tensor: ...

    def log_prob(self, action: tf.Tensor) -> tf.Tensor: ...

    def entropy(self) -> tf.Tensor: ...

    def kl(self, other: Distribution) -> tf.Tensor:
        """Return KL(self || other) in closed form."""
        ...


class ActorCriticHeads(NamedTuple):
    """Outputs of an actor-critic network for a batch of states.

    Attributes:
      policy: Distribution over ``[...]`` rows.
      value: f32 ``[...]``.
    """

    policy: Distribution
    value: tf.Tensor


class ActionValueHeads(NamedTuple):
    """Outputs of a network of action values for a batch of states.

    Attributes:
      q: f32 ``[..., A]``, Q(s, a) of every action.
      outputs: f32 ``[..., A, n]``, distributions of returns whose means are ``q``, see
        ``ops/value_distributions.py``; the same as ``q`` if n is 1.
      allowed: bool ``[..., A]``, actions that a greedy policy may take, invalid ones
        aside; ``()`` if it may take all.
    """

    q: tf.Tensor
    outputs: tf.Tensor
    allowed: tf.Tensor | tuple = ()


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
        result is NaN.

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


class Decision(NamedTuple):
    """What a policy decides in N states, and what it knows of them.

    Attributes:
      action: ``[N, ...]``, the mode, or a sample of a Box.
      state: for the next decision, see ``Policy.memory``.
      values: f32 ``[N, A]`` "values" of actions, or ``[N]`` "value" of states; or none.
      random: distribution of random decisions, if actions are not a Box: uniform for
        policies that explore by epsilon, else the policy itself.
      log_density: f32 ``[N]``, of a sample of a Box; None of a mode.
    """

    action: tf.Tensor
    state: Nest
    values: Mapping[str, tf.Tensor]
    random: Distribution | None = None
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
    """What an algorithm says of logged rows, without learning from them.

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
    """What an algorithm says of logged rows with Box actions.

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
    """

    batch_size: int
    length: int
    ratio: Ratio


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


class Learner(Protocol):
    """State of training beside the policy: optimizers, target networks, statistics.

    Optional members:
      compile_parts(on: bool): called before ``update`` is traced; whether XLA compiles
        at least the parts of ``update`` that it makes faster.
      histograms() -> Metrics: vectors for the log that depend on variables only, read
        at the end of a call and not in every update.
    """

    def named_variables(self) -> dict[str, Any]:
        """Return all state, ``{name: variable}``, as saved in a checkpoint.

        Names are the same in every process: those of the policy, and ``learner/...``
        for what only training needs, among it ``learner/optimizer/...``. A run that
        starts from the agent of another run initializes only the optimizer again.
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

    Optional members:
      assess(trajectory) -> Assessment or BoxAssessment: of logged rows, for reports.
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
class Source(Protocol):
    """A tf.Module that provides experience; its variables are its state.

    Attributes:
      envs: the environments that its programs step; none for logged data.
      compilable: whether it can run under XLA.

    Optional members:
      actor: the policy that selects actions, of a source with environments.
      store(collected, step) -> Collected: keeps what was collected, on the device that
        updates, and says how many updates are due. ``step`` is that of ``collect``.

    Optional members of a source with large variables, which are saved in files of their
    own:
      own_file: bool, false by default; whether this is so.
      check_numbers(numbers): called before variables are restored, with the saved
        values of those without axes by name; raises ValueError if they make no sense.
      interrupt(): called after variables were restored, if the environments start
        anew.
      postpone(step): called if nothing could be restored; returns how many steps after
        this one the first update is due.
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

    A program fetches one batch ahead, on a thread, while a compiled program updates.

    Attributes:
      envs: the environments that it steps itself; none for logged data.
      compilable: whether what it runs itself can be under XLA.

    Optional members of one that stores what it fetches: ``store``, ``sample`` and
    ``feedback``, as those of a ``Source``, and its further members for large variables.
    A batch of it is one trajectory, K = 1, and ``store`` says how many updates are due.
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


class RemotePlan(NamedTuple):
    """How workers elsewhere collect what a source would.

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


class Experience(Protocol):
    """Frozen settings of one kind of experience: the door for all that is learned from.

    ``sources.REGISTRY`` has those of this package; ``train(source=...)`` takes any
    other one.

    Attributes:
      name: prefix of its flags and settings, such as "rollout".
      kind: what it gives, "rollouts", "windows" or "rows"; see ``Accepts``.
      unit: unit of the run's counter, "env steps" or "gradient steps".
      program: "synchronous" if it opens a ``Source``, "host" for a ``HostSource``.
      beside: number of programs that it runs beside an update.
      takes_turns: whether collecting and updating take turns on one trajectory.

    Optional members:
      evaluator(algorithm, placement) -> Play: evaluates without an environment, like
        ``training.evaluate.Evaluator``; the score of its results chooses the best
        checkpoint. Asked for only if there is no environment.
      check_memory(spec, run, placement): raises UserError if what it stores does not
        fit into the memory of the device that updates.
      fingerprint: text that changes with the data; a run is resumed only with the data
        that it began with.
      remote_plan(run, parts) -> RemotePlan: how the workers of a pool collect instead,
        each in one of ``parts`` equal parts of the environments; raises UserError for a
        setting that means nothing there. A pool refuses a source without it.
      training_rows() -> dict: which logged episodes a run sees, by which its policy is
        not judged; see ``offline.evaluation.seen``. Without it, a source of the user's
        own may have seen all of them, and ``decide`` cannot tell.
      names() -> (actions, features): names of the actions and ids of the features of
        logged rows; raises UserError if the rows cannot be read.
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
class Program(Protocol):
    """The training of a run as calls of compiled programs.

    Attributes:
      step: progress in the unit of the source, the only counter of a run.
      rounds: number of rounds of the newest call.
      mode, reason: the part that XLA compiles, and why.
      failed: whether a thread beside the calls has failed; the next call raises its
        exception.
    """

    step: int
    rounds: int
    mode: str
    reason: str
    failed: bool

    def __call__(self, until: int, rounds: int) -> dict[str, Any]:
        """Train.

        A round collects once and then makes the updates that are due.

        Args:
          until: the call ends with the first round in which ``step`` reaches it; a
            call has at least one round.
          rounds: largest number of rounds; a host program may end with those of a
            batch.

        Returns:
          Metrics of all rounds of the call, merged by their rules and as NumPy values;
          scalars have become ``metrics.Mean``.
        """
        ...

    def traces(self) -> int:
        """Return how often a program was traced; more than once is a fault."""
        ...

    def close(self) -> None:
        """End what it has started; it may be called twice."""
        ...
