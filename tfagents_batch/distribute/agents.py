"""Agents in the partitions of Spark, and the trajectories that they sample.

    agents = DistributedAgents(spark, make_env, parallelism=4)
    sampled = agents.sample(agent.policy, episodes=16, seed=1)
    sampled.returns().show()

The names and their meaning are those of "Building Deep Reinforcement Learning
Applications on Apache Spark" (Analytics Zoo, 2018). For training by them, pass a
``SparkPool`` to ``train``.
"""

from __future__ import annotations

import operator
import uuid
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch import config as configs
from tfagents_batch import seeds
from tfagents_batch.distribute import spark_tasks, wire
from tfagents_batch.distribute.wire import Order
from tfagents_batch.distribute.worker import Job, of_worker
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Policy
from tfagents_batch.sources import episodes as whole
from tfagents_batch.training import own_algorithm
from tfagents_batch.training.config import RunConfig


class Statistics(NamedTuple):
    """Statistics of the returns of episodes.

    Attributes:
      episodes: their number, without those of failed environments.
      mean, least, most: of their returns; None without episodes.
      std: the sample's, with n - 1; 0 for fewer than two episodes.
      steps: number of steps of all of them.
    """

    episodes: int
    mean: float | None
    std: float
    least: float | None
    most: float | None
    steps: int


class DistributedAgents:
    """Agents that play in the Python processes of Spark's executors.

    Args:
      spark: session.
      make_env: environment, a name or a function that creates one.
      parallelism: number of partitions.
      algorithm: name of the algorithm whose policy acts, or your own class.
      settings: its settings that differ from the defaults.
      network: your own network or its builder, or None.
      num_envs: environments that a task steps together.

    Raises:
      UserError: for an argument that cannot be used.
    """

    def __init__(
        self,
        spark: Any,
        make_env: Any,
        parallelism: int,
        *,
        algorithm: str | type = "reinforce",
        settings: dict[str, Any] | None = None,
        network: Any = None,
        num_envs: int = 1,
    ):
        if parallelism < 1:
            raise UserError(f"parallelism is {parallelism}; expected at least 1")
        recipe = EnvRecipe(make_env)
        name = own_algorithm.name_of(algorithm)
        kind = own_algorithm.entry(name)
        chosen = configs.replace(kind.config(), settings or {}, "algorithm.").check()
        config = of_worker(RunConfig(name, settings=chosen), recipe, num_envs)
        job = Job(recipe, config, kind.kind, network, 0, num_envs)
        self._spark, self._partitions, self._num_envs = spark, parallelism, num_envs
        self._name = uuid.uuid4().hex
        self._job = spark.sparkContext.broadcast(wire.pickled(job))

    def sample(
        self, policy: Policy, episodes: int, seed: int, step: int = 0
    ) -> SampledTrajs:
        """Play whole episodes with the weights of a policy.

        They depend on the policy, the seed and the number of episodes, not on
        partitions or retries.

        Args:
          policy: policy of the same algorithm and network, such as
            ``algorithm.policy``.
          episodes: number of episodes, a multiple of ``num_envs``.
          seed: seed of environments and actions; another one for each sample.
          step: environment steps of the run, for schedules of exploration.

        Raises:
          UserError: for a number of episodes that is no multiple, or an environment
            without a time limit.
        """
        tasks = whole.rounds(episodes, self._num_envs)
        context = self._spark.sparkContext
        weights = context.broadcast(wire.weights(policy))
        play = spark_tasks.player(self._name, self._job, weights)
        orders = [
            Order(i, seeds.iteration_seed(seed, i, "pool/actions"), seed, step, 0)
            for i in range(tasks)
        ]
        parts = min(self._partitions, tasks)
        return SampledTrajs(
            self._spark, context.parallelize(orders, parts).mapPartitions(play), weights
        )


class SampledTrajs:
    """Trajectories that agents have sampled, kept in Spark.

    Args:
      spark: session.
      pieces: RDD of ``wire.Piece``, or of exceptions.
      weights: broadcast that they are made from.
    """

    def __init__(self, spark: Any, pieces: Any, weights: Any):
        self._spark, self._weights = spark, weights
        self._pieces = pieces.cache()

    def returns(self) -> Any:
        """Return a DataFrame: ``episode``, ``return`` and ``length`` of each one."""
        rows = self._pieces.flatMap(_rows)
        return self._spark.createDataFrame(
            rows, "episode long, return double, length int"
        )

    def statistics(self) -> Statistics:
        """Return statistics of the returns, computed in Spark."""
        rows = self._pieces.flatMap(_rows)
        found = rows.map(operator.itemgetter(1)).stats()
        if not found.count():
            return Statistics(0, None, 0.0, None, None, 0)
        steps = rows.map(operator.itemgetter(2)).sum()
        std = found.sampleStdev() if found.count() > 1 else 0.0
        ends = found.min(), found.max()
        return Statistics(found.count(), found.mean(), std, *ends, steps)

    def trajectories(self) -> dict[str, np.ndarray]:
        """Return all of them as arrays by name, as in ``types.Trajectory``.

        Returns:
          ``steps/...`` of ``[T + 1, episodes, ...]``, ``action`` and ``behavior/...``
          of ``[T, episodes, ...]``, and ``state/...`` of ``[episodes, ...]``.
        """
        found = sorted(self._pieces.map(_raised).collect(), key=_number)
        return {
            name: np.concatenate(
                [piece.arrays[name] for piece in found],
                axis=0 if name.startswith("state") else 1,
            )
            for name in found[0].arrays
        }

    def unpersist(self) -> None:
        """Free the memory that they take in Spark; they cannot be used any more."""
        self._pieces.unpersist()
        self._weights.destroy()


def _raised(piece: Any) -> Any:
    if isinstance(piece, BaseException):
        raise piece
    return piece


def _number(piece: Any) -> int:
    return piece.order.number


def _rows(piece: Any) -> list[tuple[int, float, int]]:
    """Return episode, return and length of the episodes of a task."""
    arrays = _raised(piece).arrays
    terminated, truncated = (arrays[f"steps/{x}"] for x in ("terminated", "truncated"))
    last = (terminated | truncated)[1:] & ~arrays["steps/first"][1:]
    returns = arrays["steps/info/episode_return"][1:]
    lengths = arrays["steps/info/episode_length"][1:]
    first = piece.order.number * last.shape[1]
    return [
        (first + int(i), float(returns[t, i]), int(lengths[t, i]))
        for t, i in np.argwhere(last)
    ]
