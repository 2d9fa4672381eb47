"""Steps a batch that exists already, over rows of shared arrays.

The counterpart of ``stepper.Stepper``, which steps environments one by one.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs import actions, failures, layout, stepper, validation
from tfagents_batch.envs.failures import Defect, Failure
from tfagents_batch.envs.observation_rules import flat as flatten
from tfagents_batch.envs.vector import batch_validation
from tfagents_batch.envs.vector.autoreset import Stepped


@runtime_checkable
class Steppable(Protocol):
    """A batch of environments; restarts are those of NEXT_STEP."""

    num_envs: int
    observation_space: gymnasium.Space
    action_space: gymnasium.Space
    max_episode_steps: int | None

    def reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        """Batched observation and infos of first steps; row i is i's of ``seed``."""

    def step(self, action: Any, over: np.ndarray) -> Stepped:
        """Step; rows that are ``over`` restart."""

    def close(self, failed: bool = False) -> None:
        """Free everything; ``failed`` if it may not answer any more. Idempotent."""


def inspect(batch: Steppable) -> dict:
    """What is known of each environment, as of ``stepper.inspect``."""
    return {
        "observation_space": spaces.to_json(batch.observation_space),
        "action_space": spaces.to_json(batch.action_space),
        "max_episode_steps": batch.max_episode_steps,
    }


class BatchStepper:
    """A batch and its rows. A failure loses all of them.

    Args:
      batch: the environments.
      arrays: views of all rows.
      words: control words, uint32.
      finite_check: "raise" makes NaN and infinity a failure, "off" passes them on.
      catch: exceptions that become failures.

    Attributes:
      unused: steps taken that no row shows, since the start.
      notes: for the log; whoever reads them empties the list.
    """

    def __init__(
        self,
        batch: Steppable,
        arrays: layout.Arrays,
        words: Any,
        finite_check: str,
        catch: stepper.Catch,
    ):
        self.unused = 0
        self.notes: list[str] = []
        self._batch = batch
        self._arrays = arrays
        self._words = words
        self._finite = finite_check == stepper.RAISE
        self._catch = catch
        self._observations = batch_validation.ObservationReader(
            batch.observation_space, arrays.observation
        )
        self._columns = {
            name: column
            for name, column in arrays.info.items()
            if name not in layout.STATISTICS
        }
        self._neutral = [_neutral(leaf) for leaf in spaces.leaves(batch.action_space)]
        self._over = np.zeros(batch.num_envs, bool)
        self._returns = np.zeros(batch.num_envs)  # of raw rewards
        self._lengths = np.zeros(batch.num_envs, np.int32)
        self._seed: int | None = None
        self._checks = 0
        self._noted: set[str] = set()
        self._failed = False

    def reset(self, seed: int) -> list[Failure]:
        """Seed and start every environment."""
        self._seed = seed
        return self._run("reset", self._reset)

    def step(self) -> list[Failure]:
        """Step every row with the actions in the arrays."""
        return self._run("step", self._step)

    def close(self) -> None:
        """Free the batch."""
        self._batch.close(self._failed)

    def _run(self, phase: str, command: Any) -> list[Failure]:
        self._failed, found = True, []  # until it has answered
        try:
            command()
            self._look_outside()
            self._failed = False
        except self._catch as error:
            found.append(self._failure(error, phase))
        return found

    def _reset(self) -> None:
        seed, arrays = self._seed, self._arrays
        self._over[:] = True  # all rows start
        arrays.episode[:] = -1
        arrays.seed[:] = [stepper.env_seed(seed, i) for i in range(len(self._over))]
        observation, info = self._batch.reset(seed)
        space = self._batch.observation_space
        self._observations.read(flatten(space, observation))
        self._refuse_not_finite()
        self._write(np.zeros(len(self._over)))
        self._write_info(info)

    def _step(self) -> None:
        stepped = self._batch.step(self._action(), self._over)
        if self._finite:
            batch_validation.finite_reward(stepped.reward)
        self._observations.read(stepped.observation)
        if len(stepped.rows):
            self._observations.read(stepped.rows_observation, stepped.rows)
        self._refuse_not_finite()
        arrays = self._arrays
        arrays.reward[:] = stepped.reward
        arrays.terminated[:] = stepped.terminated
        arrays.truncated[:] = stepped.truncated
        raw = stepped.reward if stepped.raw_reward is None else stepped.raw_reward
        self._write(raw)
        self._write_info(stepped.info)
        if len(stepped.rows) and stepped.rows_info is not None:
            self._write_info(stepped.rows_info, stepped.rows)
        self.unused += stepped.unused

    def _write(self, reward: np.ndarray) -> None:
        """Rows that were over open an episode, the others go on in theirs."""
        arrays, over = self._arrays, self._over
        arrays.first[:] = over
        arrays.episode[over] += 1
        self._lengths += 1
        self._returns += reward
        if over.any():
            self._lengths[over] = 0
            self._returns[over] = 0.0
            for column in (arrays.reward, arrays.terminated, arrays.truncated):
                column[over] = 0
        arrays.info["episode_return"][:] = self._returns
        arrays.info["episode_length"][:] = self._lengths
        np.logical_or(arrays.terminated, arrays.truncated, out=self._over)

    def _write_info(self, info: dict[str, Any], rows: Any = slice(None)) -> None:
        for name, column in self._columns.items():
            value = batch_validation.info_column(name, info, column.dtype, len(column))
            column[rows] = value[rows]

    def _action(self) -> Any:
        """The batched action, a copy, with an action of ours where it is ignored."""
        space, over, flat = self._batch.action_space, self._over, []
        restarts = over.any()
        pairs = zip(spaces.leaves(space), self._arrays.action, strict=True)
        for (leaf, array), neutral in zip(pairs, self._neutral, strict=True):
            value = array.astype(leaf.space.dtype)
            if restarts:
                value[over] = neutral
            flat.append(value)
        return spaces.pack(space, flat)

    def _refuse_not_finite(self) -> None:
        found = self._observations.not_finite() if self._finite else {}
        if found:
            row = min(found)
            raise Defect(f"{found[row]} has NaN or infinite values", row=row)

    def _look_outside(self) -> None:
        """Now and then, count observations outside their bounds."""
        count = self._checks
        self._checks = count + 1
        if count >= validation.FULL_CHECKS and count % validation.FULL_CHECK_EVERY:
            return
        outside = self._observations.outside()
        self._words[layout.OUT_OF_BOUNDS] += sum(outside.values())
        new = sorted(outside.keys() - self._noted)
        if new:
            self._noted.update(new)
            self.notes.append(
                f"{', '.join(new)} lies outside the bounds of its space; counted in "
                "env/observation_out_of_bounds and not said again"
            )

    def _failure(self, error: BaseException, phase: str) -> Failure:
        """Say which row it was, where that is known; else everybody's action."""
        row, arrays = getattr(error, "row", None), self._arrays
        known: dict[str, Any] = {"phase": phase, "seed": self._seed}
        described = failures.describe(error)
        if row is None:
            which = f"which of the {self._batch.num_envs} environments is not known"
            described["text"] += f" ({which}; the seed of init was {self._seed})"
            shown, place = [array[None] for array in arrays.action], 0
        else:
            starts = bool(self._over[row])
            episode, step = int(arrays.episode[row]) + starts, int(self._lengths[row])
            known = {"env": row, "seed": stepper.env_seed(self._seed, row)}
            known |= {"episode": episode, "step": 0 if starts else step}
            known["phase"] = phase = "reset" if starts else phase
            shown, place = arrays.action, row
        if phase == "step":
            known["action"] = actions.text(self._batch.action_space, shown, place)
        return Failure(failures.ERROR, cause=error, **known, **described)


def _neutral(leaf: spaces.Leaf) -> Any:
    """An action for rows whose action is ignored: 0, or what is nearest to it."""
    space = leaf.space
    if isinstance(space, gs.Box):
        return np.clip(0, space.low, space.high).astype(space.dtype)
    if isinstance(space, gs.MultiBinary):
        return 0
    return np.asarray(space.start)
