"""Several seeds of an experiment as one program.

Weights, optimizer slots, normalisers and environments have a leading seed axis; every
operation does the work of all seeds. Each seed is trained as it would be alone: its
random numbers, minibatches, norms and moments are its own.

Axes: S seeds, T steps, B environments of a seed; environments are rows of one batch,
``S * B`` of them, seed after seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.envs.tf.batch import State, TensorBatch
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Algorithm, Metrics
from tfagents_batch.ops.single_call import single_call
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.training import evaluate
from tfagents_batch.training.evaluate import Evaluation
from tfagents_batch.training.metrics import EACH, collected
from tfagents_batch.training.run_folder import checkpoint
from tfagents_batch.training.seeds import functional
from tfagents_batch.types import EnvSpec, Nest, TimeStep, Trajectory

MOST = 64  # iterations a call
STEP = "step"  # among the metrics


class Population:
    """The live objects of a run of several seeds.

    Args:
      algorithms: one for each seed, with its initial weights. The first one's code is
        what runs; of the others only the values are taken.
      env: of ``S * B`` rows.
      run_seeds: of the runs, S of them.
      rollout_length: T.

    Attributes:
      iterate: the program, a function of

        * ``most``: int32 ``[]``, iterations, up to ``MOST``;
        * ``training``: bool ``[S]``, seeds that are trained; the others stand still;
        * ``due``: i64 ``[S]``, the call ends with the first iteration in which a
          trained seed reaches this step, so that its caller can do there what is due.

        It returns the number of iterations; metrics ``[MOST, S]``, of which as many
        rows count (among them ``STEP``, i64, environment steps after each, and ``[MOST,
        S, n]`` of ``metrics.EACH``); and histograms ``[S, n]`` of the last one.

    Raises:
      UserError: if the algorithm cannot be trained like this.
    """

    def __init__(
        self,
        algorithms: Sequence[Algorithm],
        env: TensorBatch,
        run_seeds: Sequence[int],
        rollout_length: int,
    ):
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
            _Seeded(env), self._actor, rollout_length, self._run_seeds
        )
        self._one = tf.function(self._iteration, autograph=False)
        self.iterate = tf.function(
            single_call(self._iterate), jit_compile=True, autograph=False
        )

    def variables(self, index: int) -> dict[str, Any]:
        """What the checkpoint of a seed holds, by name, until that of another one.

        It is as of a run of that seed alone: variables of the first algorithm, and
        where its environments are.
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
        self, env: TensorBatch, episodes: int, actions: evaluate.Actions = "mode"
    ) -> evaluate.Play:
        """Plays ``episodes`` of each seed.

        Args:
          env: of ``S * E`` rows, E a divisor of ``episodes``.
          episodes: of each seed.
          actions: whose, as of ``evaluate.evaluator``.
        """
        actor = _Actor(self, env.spec.num_envs // self._size)
        count = self._size * episodes
        return evaluate.evaluator(_Seeded(env), actor, count, actions)

    def _iterate(
        self, most: tf.Tensor, training: tf.Tensor, due: tf.Tensor
    ) -> tuple[tf.Tensor, Metrics, Metrics]:
        # Traced and compiled once, though it is called in a loop.
        specs = self._one.get_concrete_function(training).structured_outputs
        arrays, newest = {}, {}
        for name, x in specs.items():
            if x.shape.rank > 1 and name not in EACH:  # a histogram
                newest[name] = tf.zeros(x.shape, x.dtype)
            else:
                arrays[name] = tf.TensorArray(x.dtype, MOST, element_shape=x.shape)

        def more(index, reached, arrays, newest):
            metrics = self._one(training)
            reached = tf.reduce_any(training & (metrics[STEP] >= due))
            arrays = {k: x.write(index, metrics[k]) for k, x in arrays.items()}
            return index + 1, reached, arrays, {k: metrics[k] for k in newest}

        count, _, arrays, newest = tf.while_loop(
            lambda index, reached, *_: (index < tf.minimum(most, MOST)) & ~reached,
            more,
            (0, False, arrays, newest),
            maximum_iterations=MOST,
            parallel_iterations=1,
        )
        return count, {name: array.stack() for name, array in arrays.items()}, newest

    def _iteration(self, training: tf.Tensor) -> Metrics:
        """Collect and update once: ``[S]`` or ``[S, n]`` for every metric."""
        before = [value.read_value() for value in self._values]
        sources = list(self._source.named_variables().values())
        stood = [variable.read_value() for variable in sources]
        step = self._value_of(self._algorithm.step).read_value()
        now = self._seeds(step)
        trajectory = self._by_seed(self._source(now))

        def update(values, trajectory, seed):
            return functional.call(
                self._variables, values, self._algorithm.update, trajectory, seed
            )

        after, metrics = _each(update, before, trajectory, now)
        for value, old, new in zip(self._values, before, after, strict=True):
            value.assign(nest.where(training, new, old))
        rows = tf.repeat(training, self._rows)
        for variable, old in zip(sources, stood, strict=True):
            variable.assign(nest.where(rows, variable.read_value(), old))
        step = self._value_of(self._algorithm.step).read_value()
        found = _each(lambda rows: collected(self._source, rows), trajectory)
        return metrics | found | {STEP: step}

    def _seeds(self, step: tf.Tensor) -> tf.Tensor:
        """int32 ``[S]``, as a single run has them at a step."""
        return seeds.iteration_seed(self._run_seeds, tf.cast(step, tf.int64))

    def _by_seed(self, trajectory: Trajectory) -> Trajectory:
        """``[S, T, B, ...]`` of ``[T, S * B, ...]``, a state ``[S, B, ...]``."""
        steps, action, behavior = nest.map(self._apart, trajectory[:3])
        state = nest.map(self._actor.apart, trajectory.state)
        return Trajectory(steps, action, behavior, state)

    def _apart(self, x: tf.Tensor) -> tf.Tensor:
        return _swapped(tf.reshape(x, [x.shape[0], self._size, -1, *x.shape[2:]]))

    def _value_of(self, variable: Any) -> tf.Variable:
        places = [variable is each for each in self._variables]
        return self._values[places.index(True)]


def split(evaluation: Evaluation, parts: int) -> list[Evaluation]:
    """Split an evaluation of ``Population.evaluator`` seed by seed.

    It has no infos and no failed episodes.
    """
    returns, lengths = (np.split(x, parts) for x in evaluation[:2])
    sampled = evaluation.sampled
    sampled = [None] * parts if sampled is None else split(sampled, parts)
    return list(map(Evaluation, returns, lengths, sampled))


class _Actor:
    """``interfaces.Actor`` of ``S * B`` rows; every seed acts by its own weights."""

    def __init__(self, population: Population, rows: int):
        self._population = population
        self._rows = rows

    def initial_state(self, batch: int) -> Nest:
        return self._population._algorithm.initial_state(batch)

    def noise(self, shape: Sequence[int], seed: tf.Tensor) -> Nest:
        time, _ = shape
        algorithm = self._population._algorithm
        seed = tf.convert_to_tensor(seed, tf.int32)
        noise = _each(lambda seed: algorithm.noise((time, self._rows), seed), seed)
        return nest.map(
            lambda x: tf.reshape(_swapped(x), [time, -1, *x.shape[3:]]), noise
        )

    def act(self, timestep: TimeStep, state: Nest, noise: Nest, explore: bool):
        population = self._population
        function, variables = population._algorithm.act, population._variables

        def act(values, *rows):
            return functional.call(variables, values, function, *rows, explore)[1]

        rows = nest.map(self.apart, (timestep, state, noise))
        values = [value.read_value() for value in population._values]
        return nest.map(self._together, _each(act, values, *rows))

    def apart(self, x: tf.Tensor) -> tf.Tensor:
        """``[S, B, ...]`` of ``[S * B, ...]``."""
        return tf.reshape(x, [-1, self._rows, *x.shape[1:]])

    def _together(self, x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(x, [-1, *x.shape[2:]])


class _Seeded:
    """A batch whose rows are opened with the seeds of a population."""

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


def _swapped(x: tf.Tensor) -> tf.Tensor:
    """``[b, a, ...]`` of ``[a, b, ...]``."""
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])


def _each(function, *rows: Nest) -> Nest:
    """A function of one seed, applied to all of them at once."""
    return tf.vectorized_map(
        lambda row: function(*row), rows, fallback_to_while_loop=False
    )


def _check(algorithm: Algorithm) -> None:
    if not getattr(algorithm, "several_seeds", False):
        raise UserError(
            f"{type(algorithm).__name__} cannot train several seeds in one program; "
            "train one seed after the other"
        )
    if not algorithm.compilable:
        raise UserError(
            "several seeds in one program are for networks without convolutions; train "
            "this one one seed after the other"
        )
