"""Play whole episodes and say how they went; learning and statistics stand still."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.graph.function import function
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Actor, Env
from tfagents_batch.ops.single_call import single_call
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.training import compilation
from tfagents_batch.training.program import Compiled, Plan

CHUNK = 128  # steps a program: short, so that an interrupt is seen soon
LONGEST = 100_000  # steps of an episode when the environments name no limit

Played = Literal["mode", "sample"]
Actions = Literal["mode", "sample", "both"]


class Evaluation(NamedTuple):
    """Results of whole episodes, environment by environment.

    Episodes that failed are not among them: means are over those that ended.

    Attributes:
      returns: f64 ``[episodes]``, undiscounted sums of raw rewards.
      lengths: i64 ``[episodes]``, steps.
      sampled: where both were asked for, the same of episodes whose actions were
        sampled; these are then those of the mode.
      infos: ``{name: f64 [episodes]}``, what environments said in the last step of each
        episode; NaN where they said nothing. Those of ``log_info``.
      failed_episodes: those that have no result, because their environment failed.
    """

    returns: np.ndarray
    lengths: np.ndarray
    sampled: Evaluation | None = None
    infos: Mapping[str, np.ndarray] = MappingProxyType({})
    failed_episodes: int = 0

    @property
    def mean_return(self) -> float:
        """NaN if every episode failed."""
        return float(np.mean(self.returns)) if self.episodes else math.nan

    @property
    def std_return(self) -> float:
        """Population standard deviation over episodes; NaN if every one failed."""
        return float(np.std(self.returns)) if self.episodes else math.nan

    @property
    def episodes(self) -> int:
        return len(self.returns)

    @property
    def means(self) -> dict[str, float]:
        """Of ``infos``, over the episodes that said something."""
        said = {name: x[np.isfinite(x)] for name, x in self.infos.items()}
        return {name: float(x.mean()) for name, x in said.items() if x.size}

    def metrics(self, group: str = "eval") -> dict[str, float]:
        """For a line of metrics; what was sampled beside is ``eval_sample/...``."""
        found = {
            f"{group}/episodes": self.episodes,
            f"{group}/failed_episodes": self.failed_episodes,
        }
        if self.episodes:
            found |= {
                f"{group}/return_mean": self.mean_return,
                f"{group}/return_std": self.std_return,
                f"{group}/length_mean": float(self.lengths.mean()),
            }
        found |= {f"{group}/{name}_mean": x for name, x in self.means.items()}
        if self.sampled is not None:
            found |= self.sampled.metrics("eval_sample")
        return found


# As of an ``Evaluator``: ``(seed, stop)``, of which ``stop`` may be left out.
Play = Callable[..., Evaluation | None]


def batch_size(episodes: int, most: int) -> int:
    """Largest batch up to ``most`` in which every environment plays as many."""
    return max(size for size in range(1, most + 1) if episodes % size == 0)


class Evaluator:
    """Plays ``episodes`` episodes, the same number in each environment.

    The first episodes to end are not simply taken: that would favour short ones. For
    the same reason no other episode is played in the place of one that failed.

    Args:
      env: for evaluation alone; ``episodes`` is a multiple of its batch.
      actor: who plays.
      episodes: in all.
      explore: sample actions, else take the policy's mode.
      info: f32 columns of the environments' infos to tell of, see ``Evaluation``.
      compiled: have XLA compile it, unless XLA refuses an operation.
    """

    def __init__(
        self,
        env: Env,
        actor: Actor,
        episodes: int,
        explore: bool = False,
        info: Sequence[str] = (),
        compiled: bool = False,
    ):
        self.env = env
        self.quota = episodes // env.spec.num_envs
        self._actor, self._explore, self._info = actor, explore, tuple(info)
        self._ways = ["full", "off"] if compiled else ["off"]
        self._rollout: Rollout | None = None

    def __call__(
        self, seed: int | Sequence[int], stop: Callable[[], bool] = lambda: False
    ) -> Evaluation | None:
        """Open new episodes and play until every environment has its quota.

        Args:
          seed: equal ones give equal episodes; one for each part of ``env``, where it
            is of several seeds.
          stop: asked every ``CHUNK`` steps.

        Returns:
          None if ``stop`` said so.

        Raises:
          EnvError: if an environment failed.
          UserError: if an episode does not end.
        """
        if self._rollout is None:
            self._rollout = Rollout(self.env, self._actor, CHUNK, seed, self._explore)
            plan = Plan(self._ways, "as training")
            self._play = Compiled(self._program, plan, "--compile of evaluations")
        else:
            self._rollout.restart(seed)
        return self._collect(seed, stop)

    def _program(self, way: str) -> Callable:
        compilation.name_evaluation(sampled=self._explore)

        def play(seed):
            steps = self._rollout(seed).steps
            names = "episode_return", "episode_length", *self._info
            results = [tf.cast(steps.info[name], tf.float64) for name in names]
            return steps.last & steps.valid, steps.valid, results

        compiled = way == "full"
        body = single_call(play) if compiled else play
        return function(body, envs=[self.env], jit_compile=compiled, autograph=False)

    def _collect(
        self, seed: int | Sequence[int], stop: Callable[[], bool]
    ) -> Evaluation | None:
        batch = self.env.spec.num_envs
        # The turns of each environment: an episode or a failure uses up one.
        results: list[list[list[float]]] = [[] for _ in range(batch)]
        left = np.full(batch, self.quota)
        was_valid = np.ones(batch, bool)
        limit = (self.env.spec.max_episode_steps or LONGEST) + 1
        patience = 1 + (self.quota * limit) // CHUNK
        for chunk in range(10 * (patience + 1)):
            if patience < 0:
                break
            if stop():
                return None
            rows = self._play(tf.constant(_noise_seed(seed, chunk), tf.int32))
            # The first row of a later chunk is the last one of the chunk before.
            new = slice(0 if chunk == 0 else 1, None)
            rows = tf.nest.map_structure(lambda x, new=new: x.numpy()[new], rows)
            ended, valid, told = rows
            # A row is not valid until its environment is replaced: that is one failure.
            failed = ~valid & np.vstack([was_valid, valid[:-1]])
            was_valid = valid[-1]
            for t, i in zip(*np.nonzero(ended | failed), strict=True):
                if left[i] and ended[t, i]:
                    results[i].append([x[t, i] for x in told])
                left[i] = max(left[i] - 1, 0)
            patience -= int(valid.all())  # what is being replaced has time
            if not left.any():
                return self._evaluation(results)
        raise UserError(
            f"an evaluation episode did not end within {limit - 1} steps; give the "
            "environment a time limit (gymnasium.wrappers.TimeLimit), or train with "
            "eval_every=0"
        )

    def _evaluation(self, results: list[list[list[float]]]) -> Evaluation:
        rows = [row for each in results for row in each]
        columns = np.array(rows).reshape(len(rows), 2 + len(self._info)).T
        returns, lengths, *rest = columns
        infos = dict(zip(self._info, rest, strict=True))
        failed = self.quota * len(results) - len(rows)
        lengths = lengths.astype(np.int64)
        return Evaluation(returns, lengths, infos=infos, failed_episodes=failed)


def evaluator(
    env: Env,
    actor: Actor,
    episodes: int,
    actions: Actions,
    info: Sequence[str] = (),
    compiled: bool = False,
) -> Play:
    """What plays ``episodes`` by the policy's mode, by sampled actions, or by both.

    Both are as many episodes that begin alike; the result is that of the mode, the
    other one beside it.
    """
    mode = Evaluator(env, actor, episodes, False, info, compiled)
    sample = Evaluator(env, actor, episodes, True, info, compiled)

    def both(seed, stop=lambda: False):
        result = mode(seed, stop)
        sampled = None if result is None else sample(seed, stop)
        return None if sampled is None else result._replace(sampled=sampled)

    return {"mode": mode, "sample": sample, "both": both}[actions]


def _noise_seed(seed: int | Sequence[int], chunk: int) -> int | list[int]:
    """Of the actions of a chunk of steps: each has noise of its own."""
    if isinstance(seed, (int, np.integer)):
        return seeds.iteration_seed(int(seed), chunk, "evaluate/actions")
    return [_noise_seed(each, chunk) for each in seed]
