"""Several seeds of an experiment as one program.

Weights, optimizer slots, normalizers and environments have a leading seed axis; every
operation computes all seeds. Each seed is trained as if it were alone, with its own
random numbers, minibatches, norms and moments.

Axes: S seeds, T steps, B environments per seed. The environments are the ``S * B`` rows
of one batch, seed after seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.envs.tf.batch import State, TensorBatch
from tfagents_batch.errors import UserError
from tfagents_batch.graph import constants
from tfagents_batch.graph.single_call import single_call
from tfagents_batch.interfaces import Algorithm
from tfagents_batch.metrics import RULES, Metrics
from tfagents_batch.placement import HOST, Placement
from tfagents_batch.sources.metrics import of_trajectory
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.training import evaluate
from tfagents_batch.training.evaluate import Evaluation
from tfagents_batch.training.run_folder import checkpoint
from tfagents_batch.training.seeds import functional
from tfagents_batch.types import EnvSpec, Nest, TimeStep, Trajectory

MOST = 64  # iterations per call
STEP = "step"  # name of a metric
REASON = "all seeds are one program"


class Population:
    """Several seeds as one program.

    Args:
      algorithms: one for each seed, with its initial weights. Only the code of the
        first one runs; the others provide their values.
      env: batch of ``S * B`` rows.
      run_seeds: the S seeds.
      rollout_length: T.
      placement: the device of all variables.

    Raises:
      UserError: if the algorithm does not support several seeds.
    """

    def __init__(
        self,
        algorithms: Sequence[Algorithm],
        env: TensorBatch,
        run_seeds: Sequence[int],
        rollout_length: int,
        placement: Placement = HOST,
    ):
        self._placement = placement
        self._algorithm = algorithms[0]
        _check(self._algorithm)
        named = self._algorithm.named_variables()
        self._names = list(named)
        self._variables = list(named.values())
        rows = [each.named_variables() for each in algorithms]
        self._values = [
            tf.Variable(np.stack([row[name].numpy() for row in rows]), trainable=False)
            for name in self._names
        ]
        self._run_seeds = tf.constant(list(run_seeds), tf.int32)
        self._size = len(algorithms)
        self._rows = env.spec.num_envs // self._size
        self._actor = _Actor(self, self._rows)
        self._source = Rollout(
            _SeededEnv(env), self._actor, rollout_length, self._run_seeds
        )
        self._step = tf.Variable([0] * self._size, dtype=tf.int64, trainable=False)
        self._iterate_once = tf.function(self._iteration, autograph=False)
        self._program = tf.function(
            single_call(self._iterate), jit_compile=True, autograph=False
        )

    def __call__(
        self, until: Sequence[int], rounds: int
    ) -> tuple[int, dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Train the seeds that are not there yet.

        Args:
          until: for each seed the step to reach. The call ends with the first round in
            which one of the trained seeds reaches its own, so that the caller can act
            there. A seed that begins the call at its step or behind it does not change.
          rounds: largest number of rounds, up to ``MOST``.

        Returns:
          The number n of rounds; metrics ``[MOST, S, ...]``, of which the first n rows
          count (with ``STEP``, i64, the step after each round); and histograms
          ``[S, n]`` of the last round.
        """
        with self._placement.collecting():
            found = self._program(
                constants.argument(rounds), constants.argument(until, tf.int64)
            )
        count, metrics, newest = tf.nest.map_structure(lambda x: x.numpy(), found)
        return int(count), metrics, newest

    def traces(self) -> int:
        """Return how often the program was traced; more than once is a fault."""
        return self._program.experimental_get_tracing_count()

    def variables(self, index: int) -> dict[str, Any]:
        """Return the variables of a seed's checkpoint, by name, until the next call.

        They are those of a run of this seed alone: the variables of the first algorithm
        and the states of the seed's environments.
        """
        named = dict(self._algorithm.named_variables())
        for name, values in zip(self._names, self._values, strict=True):
            named[name].assign(values[index])
        rows = slice(index * self._rows, (index + 1) * self._rows)
        for name, each in self._source.named_variables().items():
            name = f"{checkpoint.RUN_ONLY}source/{name}"
            named[name] = tf.Variable(each[rows], trainable=False)
        return named

    def evaluator(
        self,
        env: TensorBatch,
        episodes: int,
        actions: evaluate.Actions = "mode",
        most_steps: int | None = None,
    ) -> evaluate.Play:
        """Return a function that plays ``episodes`` episodes per seed.

        Args:
          env: batch of ``S * E`` rows; E divides ``episodes``.
          episodes: episodes per seed.
          actions, most_steps: see ``evaluate.Evaluator``.
        """
        actor = _Actor(self, env.spec.num_envs // self._size)
        count = self._size * episodes
        return evaluate.Evaluator(
            _SeededEnv(env),
            actor,
            count,
            actions,
            most_steps=most_steps,
            placement=self._placement,
        )

    def _iterate(
        self, most: tf.Tensor, until: tf.Tensor
    ) -> tuple[tf.Tensor, Metrics, Metrics]:
        training = self._step.read_value() < until
        # A function is traced and compiled once for the whole loop.
        specs = self._iterate_once.get_concrete_function(training).structured_outputs
        arrays, newest = {}, {}
        for name, x in specs.items():
            if not isinstance(x, RULES) and x.shape.rank > 1:  # a histogram
                newest[name] = tf.zeros(x.shape, x.dtype)
            else:
                arrays[name] = nest.map(
                    lambda x: tf.TensorArray(x.dtype, MOST, element_shape=x.shape), x
                )

        def more(index, reached, arrays, newest):
            metrics = self._iterate_once(training)
            reached = tf.reduce_any(training & (metrics[STEP] >= until))
            written = {k: metrics[k] for k in arrays}
            arrays = nest.map(lambda x, y: x.write(index, y), arrays, written)
            return index + 1, reached, arrays, {k: metrics[k] for k in newest}

        count, _, arrays, newest = tf.while_loop(
            lambda index, reached, *_: (index < tf.minimum(most, MOST)) & ~reached,
            more,
            (0, False, arrays, newest),
            parallel_iterations=1,
            name="rounds",
        )
        return count, nest.map(lambda array: array.stack(), arrays), newest

    def _iteration(self, training: tf.Tensor) -> Metrics:
        """Collect and update once; return metrics ``[S]`` or ``[S, n]``."""
        before = [value.read_value() for value in self._values]
        sources = list(self._source.named_variables().values())
        old_sources = [variable.read_value() for variable in sources]
        step = self._step.read_value()
        now = seeds.iteration_seed(self._run_seeds, step)
        trajectory = self._by_seed(self._source.collect(now, step).trajectory)

        def update(values, trajectory, seed, step):
            function = self._algorithm.update
            given = trajectory, seed, step
            return functional.call(self._variables, values, function, *given)

        after, updated = _map_seeds(update, before, trajectory, now, step)
        for value, old, new in zip(self._values, before, after, strict=True):
            value.assign(nest.where(training, new, old))
        rows = tf.repeat(training, self._rows)
        for variable, old in zip(sources, old_sources, strict=True):
            variable.assign(nest.where(rows, variable.read_value(), old))
        env = self._source.env

        def measure(rows):
            steps = tf.reduce_sum(tf.cast(rows.mask, tf.int64))
            return steps, of_trajectory(rows, env)

        steps, measured = _map_seeds(measure, trajectory)
        step = self._step.assign_add(tf.where(training, steps, 0), read_value=True)
        return updated.metrics | measured | {STEP: step}

    def _by_seed(self, trajectory: Trajectory) -> Trajectory:
        """Reshape steps to ``[S, T, B, ...]`` and states to ``[S, B, ...]``."""
        steps, action, behavior = nest.map(self._split_steps, trajectory[:3])
        state = nest.map(self._actor.split_rows, trajectory.state)
        return Trajectory(steps, action, behavior, state)

    def _split_steps(self, x: tf.Tensor) -> tf.Tensor:
        return _swap_axes(tf.reshape(x, [x.shape[0], self._size, -1, *x.shape[2:]]))


def split(evaluation: Evaluation, parts: int) -> list[Evaluation]:
    """Split an evaluation of ``Population.evaluator`` into one per seed.

    It must have no infos and no failed episodes.
    """
    fields = evaluation.returns, evaluation.lengths, evaluation.cut_off
    columns = zip(*(np.split(x, parts) for x in fields), strict=True)
    sampled = evaluation.sampled
    sampled = [None] * parts if sampled is None else split(sampled, parts)
    return [
        Evaluation(returns, lengths, each, cut_off=cut_off)
        for (returns, lengths, cut_off), each in zip(columns, sampled, strict=True)
    ]


class _Actor:
    """``interfaces.Actor`` of ``S * B`` rows; each seed acts with its own weights."""

    def __init__(self, population: Population, rows: int):
        self._population, self._rows = population, rows
        self._policy = population._algorithm.policy

    def initial_state(self, batch: int) -> Nest:
        return self._policy.initial_state(batch)

    def noise(self, shape: Sequence[int], seed: tf.Tensor) -> Nest:
        time, _ = shape
        policy = self._policy
        seed = tf.convert_to_tensor(seed, tf.int32)
        noise = _map_seeds(lambda seed: policy.noise((time, self._rows), seed), seed)
        return nest.map(
            lambda x: tf.reshape(_swap_axes(x), [time, -1, *x.shape[3:]]), noise
        )

    def act(self, timestep: TimeStep, state: Nest, noise: Nest, step, explore: bool):
        population, function = self._population, self._policy.act
        variables = population._variables

        def act(values, *rows):
            return functional.call(variables, values, function, *rows, explore)[1]

        rows = nest.map(self.split_rows, (timestep, state, noise))
        values = [value.read_value() for value in population._values]
        steps = tf.broadcast_to(step, [population._size])
        return nest.map(self._merge_rows, _map_seeds(act, values, *rows, steps))

    def split_rows(self, x: tf.Tensor) -> tf.Tensor:
        """Reshape ``[S * B, ...]`` to ``[S, B, ...]``."""
        return tf.reshape(x, [-1, self._rows, *x.shape[1:]])

    def _merge_rows(self, x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(x, [-1, *x.shape[2:]])


class _SeededEnv:
    """A batch of environments, initialized with the seeds of a population."""

    compilable = True

    def __init__(self, env: TensorBatch):
        self._env = env
        self.spec: EnvSpec = env.spec

    def init(self, seed: tf.Tensor) -> tuple[State, TimeStep]:
        return self._env.init_each(tf.convert_to_tensor(seed, tf.int32))

    def step(self, state: State, action: Nest) -> tuple[State, TimeStep]:
        return self._env.step(state, action)

    def ok(self, state: State) -> tf.Tensor:
        return self._env.ok(state)


def _swap_axes(x: tf.Tensor) -> tf.Tensor:
    """Transpose ``[a, b, ...]`` to ``[b, a, ...]``."""
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])


def _map_seeds(function, *rows: Nest) -> Nest:
    """Apply a function of one seed to all seeds at once."""
    return tf.vectorized_map(
        lambda row: function(*row), rows, fallback_to_while_loop=False
    )


def supported(algorithm: Algorithm | type[Algorithm]) -> bool:
    """Return whether an algorithm, or its class, can train several seeds at once."""
    return getattr(algorithm, "several_seeds", False)


def _check(algorithm: Algorithm) -> None:
    if not supported(algorithm):
        raise UserError(
            f"{type(algorithm).__name__} cannot train several seeds in one program; "
            "train one seed after the other"
        )
    if not algorithm.compilable:
        raise UserError(
            "several seeds in one program are for networks without convolutions; train "
            "one seed after the other"
        )
