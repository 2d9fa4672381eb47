"""Evaluation over whole episodes; weights and statistics do not change."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch import algorithms, seeds, spaces
from tfagents_batch.devices.placement import HOST, Placement
from tfagents_batch.envs.graph.function import function
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import UserError
from tfagents_batch.experience import Evaluates
from tfagents_batch.graph import arrays
from tfagents_batch.graph.function import single_call
from tfagents_batch.interfaces import Actor, Assesses, Env
from tfagents_batch.programs.program import Compiled, Plan
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.tracing import anew
from tfagents_batch.training import compilation, own_algorithm
from tfagents_batch.training.config import LONGEST, Actions, RunConfig
from tfagents_batch.types import EnvSpec

CHUNK = 128  # steps per program call: short, so that an interrupt is noticed soon
_LOG = logging.getLogger("tfagents_batch")


class Evaluation(NamedTuple):
    """Results of whole episodes, ordered by environment.

    Failed episodes are excluded; means are over episodes that ended.

    Attributes:
      returns: f64 ``[episodes]``, undiscounted sums of raw rewards.
      lengths: i64 ``[episodes]``, steps.
      sampled: with ``actions="both"``, the results of episodes with sampled actions;
        all other fields are then results of the policy's mode.
      infos: ``{name: f64 [episodes]}``, values of the ``log_info`` keys in the last
        step of each episode; NaN where the info has no value.
      failed_episodes: number of episodes that failed; they have no result.
      cut_off: bool ``[episodes]``, whether the episode was cut off at the limit of
        steps; its result is that of the steps before it.
    """

    returns: np.ndarray
    lengths: np.ndarray
    sampled: Evaluation | None = None
    infos: Mapping[str, np.ndarray] = MappingProxyType({})
    failed_episodes: int = 0
    cut_off: np.ndarray = np.zeros(0, bool)

    @property
    def mean_return(self) -> float:
        """Mean return; NaN if every episode failed."""
        return float(np.mean(self.returns)) if self.episodes else math.nan

    measure = "mean return"

    @property
    def score(self) -> float:
        """Number that is larger in a better checkpoint, see ``measure``."""
        return self.mean_return

    @property
    def score_error(self) -> float:
        """Standard error of ``score``."""
        return self.std_return / math.sqrt(max(self.episodes, 1))

    @property
    def std_return(self) -> float:
        """Population standard deviation of returns; NaN if every episode failed."""
        return float(np.std(self.returns)) if self.episodes else math.nan

    @property
    def episodes(self) -> int:
        return len(self.returns)

    @property
    def cut_off_episodes(self) -> int:
        return int(self.cut_off.sum())

    @property
    def means(self) -> dict[str, float]:
        """Mean of each of ``infos`` over the episodes that have a value."""
        finite = {name: x[np.isfinite(x)] for name, x in self.infos.items()}
        return {name: float(x.mean()) for name, x in finite.items() if x.size}

    def metrics(self, group: str = "eval") -> dict[str, float]:
        """Return log metrics; those of ``sampled`` are named ``eval_sample/...``."""
        metrics = {
            f"{group}/episodes": self.episodes,
            f"{group}/failed_episodes": self.failed_episodes,
            f"{group}/cut_off_episodes": self.cut_off_episodes,
        }
        if self.episodes:
            metrics |= {
                f"{group}/return_mean": self.mean_return,
                f"{group}/return_std": self.std_return,
                f"{group}/length_mean": float(self.lengths.mean()),
            }
        metrics |= {f"{group}/{name}_mean": x for name, x in self.means.items()}
        if self.sampled is not None:
            metrics |= self.sampled.metrics("eval_sample")
        return metrics


# ``Evaluator.__call__(seed, stop, step)``, of which the last two are optional.
Play = Callable[..., Evaluation | None]


class Evaluator:
    """Plays ``episodes`` episodes, the same number in each environment.

    Taking the episodes that end first would favor short ones. For the same reason, a
    failed episode is not replaced by a new one. An episode that reaches the limit is
    cut off. It then waits for the others. All environments of a batch restart together.

    Args:
      env: used for evaluation only; its batch size must divide ``episodes``.
      actor: policy that selects actions.
      episodes: total number.
      actions: "mode" for the policy's mode, "sample" for sampled actions. "both" plays
        ``episodes`` episodes of each, from the same initial states. The result is that
        of the mode; its field ``sampled`` is the result of sampled actions.
      info: f32 columns of the environments' infos to report, see ``Evaluation``.
      compiled: compile with XLA, unless XLA refuses an operation.
      most_steps: steps of an episode, at most; None means the limit of the
        environments, or ``LONGEST`` if they have none.
      placement: the devices, of which only that of the actor's variables is used.
      refresh: called before the first step of an evaluation.
    """

    def __init__(
        self,
        env: Env,
        actor: Actor,
        episodes: int,
        actions: Actions = "mode",
        info: Sequence[str] = (),
        compiled: bool = False,
        most_steps: int | None = None,
        placement: Placement = HOST,
        refresh: Callable[[], None] | None = None,
    ):
        self._env, self._placement, self._refresh = env, placement, refresh
        self._most_steps = most_steps or env.spec.max_episode_steps or LONGEST
        self._warned = False
        self._quota = episodes // env.spec.num_envs
        self._actor, self._actions, self._info = actor, actions, tuple(info)
        self._modes = ["full", "off"] if compiled else ["off"]
        self._programs: dict[bool, tuple[Rollout, Compiled]] = {}

    def __call__(
        self, seed: int, stop: Callable[[], bool] = lambda: False, step: int = 0
    ) -> Evaluation | None:
        """Start new episodes and play until every environment has its quota.

        Args:
          seed: equal seeds give equal episodes.
          stop: called every ``CHUNK`` steps; True ends the evaluation.
          step: environment steps of the run, for schedules of exploration.

        Returns:
          The results; None if ``stop`` returned True.

        Raises:
          EnvError: if an environment failed.
        """
        if self._refresh is not None:
            self._refresh()
        explored = {"mode": [False], "sample": [True], "both": [False, True]}
        results = []
        with self._placement.collecting():
            now = arrays.argument(step, tf.int64)
            for explore in explored[self._actions]:
                result = self._play(*self._start(explore, seed), seed, stop, now)
                if result is None:
                    return None
                results.append(result)
        first, *others = results
        return first._replace(sampled=others[0]) if others else first

    def _start(self, explore: bool, seed: int) -> tuple[Rollout, Compiled]:
        """Start episodes; return their rollout and the program that plays them."""
        if explore in self._programs:
            rollout, _ = self._programs[explore]
            rollout.restart(seed)
            return self._programs[explore]
        rollout = Rollout(self._env, self._actor, CHUNK, seed, explore)

        def play(seed, step):
            return self._step(rollout, seed, step)

        def make(mode: str) -> Callable:
            compilation.name_evaluation(sampled=explore)
            envs, compiled = [self._env], mode == "full"
            body = single_call(play) if compiled else play
            options = {"jit_compile": compiled, "autograph": False}
            return function(anew(body), envs=envs, **options)

        plan, where = Plan(self._modes, "same as training"), self._placement
        program = Compiled(make, plan, where, "--compile of evaluations")
        self._programs[explore] = rollout, program
        return rollout, program

    def _step(self, rollout: Rollout, seed: tf.Tensor, step: tf.Tensor) -> tuple:
        """Play ``CHUNK`` steps; return where ended, cut off and valid, and values."""
        steps = rollout.collect(seed, step).trajectory.steps
        names = "episode_return", "episode_length", *self._info
        results = [tf.cast(steps.info[name], tf.float64) for name in names]
        length = steps.info["episode_length"]
        cut_off = (length >= self._most_steps) & steps.valid & ~steps.last
        return steps.last & steps.valid, cut_off, steps.valid, results

    def _play(
        self,
        rollout: Rollout,
        play: Compiled,
        seed: int,
        stop: Callable[[], bool],
        step: tf.Tensor,
    ) -> Evaluation | None:
        batch = self._env.spec.num_envs
        # Ended, cut off and failed episodes count towards their environment's quota.
        results: list[list[list[float]]] = [[] for _ in range(batch)]
        left = np.full(batch, self._quota)
        waits = np.zeros(batch, bool)  # until the episode that was cut off ends
        was_valid, fresh, restarts = np.ones(batch, bool), True, 0
        for chunk in itertools.count():
            if stop():
                return None
            noise = seeds.iteration_seed(seed, chunk, "evaluate/actions")
            rows = play(arrays.argument(noise), step)
            # The first row of a chunk repeats the last row of the previous chunk.
            new = slice(0 if fresh else 1, None)
            rows = tf.nest.map_structure(lambda x, new=new: x.numpy()[new], rows)
            ended, long, valid, values = rows
            # Consecutive invalid rows count as one failure.
            failed = ~valid & np.vstack([was_valid, valid[:-1]])
            was_valid, fresh = valid[-1], False
            for t, i in zip(*np.nonzero(ended | long | failed), strict=True):
                waited, waits[i] = waits[i], long[t, i]
                if waited or not left[i]:
                    continue
                left[i] -= 1
                if not failed[t, i]:
                    results[i].append([long[t, i], *(x[t, i] for x in values)])
                if long[t, i] and not self._warned:
                    self._warn()
            if not left.any():
                return self._evaluation(results)
            if (waits | (left == 0)).all():
                restarts += 1
                again = seeds.iteration_seed(seed, restarts, "evaluate/restart")
                rollout.restart(again)
                waits[:], was_valid[:], fresh = False, True, True

    def _warn(self) -> None:
        self._warned = True
        _LOG.warning(
            "an evaluation episode was cut off after %d steps; eval/cut_off_episodes "
            "counts such episodes. Change the limit by eval_max_episode_steps, or give "
            "the environment a limit of its own (gymnasium.wrappers.TimeLimit)",
            self._most_steps,
        )

    def _evaluation(self, results: list[list[list[float]]]) -> Evaluation:
        rows = [row for episodes in results for row in episodes]
        columns = np.array(rows).reshape(len(rows), 3 + len(self._info)).T
        cut_off, returns, lengths, *rest = columns
        infos = dict(zip(self._info, rest, strict=True))
        failed = self._quota * len(results) - len(rows)
        lengths = lengths.astype(np.int64)
        return Evaluation(
            returns,
            lengths,
            infos=infos,
            failed_episodes=failed,
            cut_off=cut_off.astype(bool),
        )


def reports(config: RunConfig) -> bool:
    """Return whether a run evaluates by its source, without an environment."""
    kind = own_algorithm.entry(config.algorithm).kind
    return issubclass(kind, Assesses) and isinstance(config.source, Evaluates)


def check_played(config: RunConfig) -> None:
    """Refuse settings of evaluations that play, for rows without an environment."""
    if config.env or config.source.kind != "rows":
        return
    for name in ("eval_actions", "eval_episodes", "eval_max_episode_steps"):
        value = getattr(config, name)
        if value != getattr(RunConfig, name):
            raise UserError(
                f"{name} is {value}, which means nothing without an environment; leave "
                "it out, or pass env to play in evaluations"
            )


def check(config: RunConfig, recipe: EnvRecipe, eval_recipe: EnvRecipe | None) -> None:
    """Check that the evaluations of a run have environments of their own."""
    if config.eval_every == 0:
        return
    if eval_recipe is None and not recipe.env and not reports(config):
        text, advice = "the run has no environment", "pass one as eval_env="
        if isinstance(config.source, Evaluates):
            known = algorithms.REGISTRY.items()
            names = [name for name, (kind, _) in known if issubclass(kind, Assesses)]
            text += f", and reports on rows instead are those of {', '.join(names)}"
            advice = "pass --env=<name> to play in it"
        raise UserError(
            f"eval_every is {config.eval_every}, but {text}; {advice}, or set "
            "eval_every=0"
        )
    if recipe.exists and (eval_recipe is None or eval_recipe.env is recipe.env):
        raise UserError(
            f"env is a {type(recipe.env).__name__} object, which exists already, so "
            "evaluations would disturb training; pass a second one as eval_env=, or "
            "set eval_every=0"
        )


def check_spaces(played: EnvSpec, expected: EnvSpec) -> None:
    """Check that the agent can act in the evaluation environment."""
    same_actions = played.action_space == expected.action_space
    # Observation bounds may differ: evaluations may measure exactly that.
    alike = spaces.alike(played.observation_space, expected.observation_space)
    checks = (same_actions, "action_space"), (alike, "observation_space")
    for fits, name in checks:
        if not fits:
            own, trained = getattr(played, name), getattr(expected, name)
            raise UserError(
                f"eval_env has {name}={own}, but the agent is trained with {trained}; "
                "pass an environment with the same spaces"
            )
