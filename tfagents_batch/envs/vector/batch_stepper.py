"""Step an existing batch, and write its results to rows of shared arrays.

``stepper.Stepper`` does the same for single environments. Both follow the rules of
``validation`` and ``observation_rules``; here arrays have a batch axis. The attribute
``row`` of a Defect is the index of its environment, None if unknown.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np

from tfagents_batch import spaces
from tfagents_batch.envs.shared import (
    actions,
    failures,
    layout,
    observation_rules,
    validation,
)
from tfagents_batch.envs.shared.failures import Defect, Failure
from tfagents_batch.envs.shared.observations import (
    FiniteCheck,
    ObservationWriter,
    outside_text,
)
from tfagents_batch.envs.shared.validation import refuse
from tfagents_batch.envs.worker import construction


@runtime_checkable
class Steppable(Protocol):
    """Batch of environments that restarts in Gymnasium's autoreset mode NEXT_STEP.

    The row after an episode's last one ignores its action, contains the next episode's
    first observation and has reward 0.
    """

    num_envs: int
    observation_space: gymnasium.Space  # of one environment
    action_space: gymnasium.Space
    max_episode_steps: int | None  # time limit, or None
    # Key of the rewards before clipping in the info of ``step``, for the statistics;
    # None if rewards are not clipped.
    raw_reward: str | None

    def reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        """Return batched first observations and infos; row i depends on (seed, i)."""
        ...

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step or restart every row; the results are read before the next call."""
        ...

    def close(self, failed: bool = False) -> None:
        """Free the batch; after a failure it may not respond. Idempotent."""
        ...


class BatchStepper:
    """Stepper of a batch that fills its rows. A failure loses all rows.

    With ``finite_check`` "raise" NaN and infinity are failures, "off" passes them on.
    """

    def __init__(
        self,
        batch: Steppable,
        arrays: layout.Arrays,
        words: Any,
        finite_check: str,
        catch: construction.Catch,
    ):
        self.notes: list[str] = []  # messages for the log; the reader empties the list
        self._batch = batch
        self._arrays = arrays
        self._words = words
        self._catch = catch
        space = batch.observation_space
        self._observations = ObservationWriter(space, arrays.observation)
        self._finite = FiniteCheck(finite_check, self._observations, arrays)
        self._no_action = observation_rules.mask_rows(
            space, batch.action_space, arrays.observation
        )
        self._columns = arrays.info_columns()
        # Actions for rows that ignore them: 0, or the nearest allowed values.
        self._neutral = [
            np.clip(0, *observation_rules.bounds(leaf.space)).astype(leaf.space.dtype)
            for leaf in spaces.leaves(batch.action_space)
        ]
        self._over = np.zeros(batch.num_envs, bool)
        self._returns = np.zeros(batch.num_envs)  # of raw rewards
        self._lengths = np.zeros(batch.num_envs, np.int32)
        self._seed = 0  # of the last reset
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
        self._failed, faults = True, []  # failed until the command returns
        try:
            command()
            self._count_out_of_bounds()
            self._failed = False
        except self._catch as error:
            faults.append(self._failure(error, phase))
        return faults

    def _reset(self) -> None:
        seed, arrays = self._seed, self._arrays
        self._over[:] = True  # all rows start
        arrays.episode[:] = -1
        rows = range(len(self._over))
        arrays.seed[:] = [construction.env_seed(seed, row) for row in rows]
        result = self._batch.reset(seed)
        refuse(validation.reset_defects(result))
        observation, info = result
        self._observations.write_batch(observation)
        refuse(self._finite.check())
        self._refuse_masks(np.zeros(len(self._over), bool))
        self._write(np.zeros(len(self._over)))
        self._write_info(info)

    def _step(self) -> None:
        result = self._batch.step(self._action())
        refuse(validation.step_form_defects(result))
        observation, reward, terminated, truncated, info = result
        refuse(validation.info_defects(info))
        count = len(self._over)
        reward = _column("reward", reward, count, "fiub", "numbers").astype(np.float64)
        terminated = _column("terminated", terminated, count, "b", "bools")
        truncated = _column("truncated", truncated, count, "b", "bools")
        if (both := self._over & (terminated | truncated)).any():
            raise Defect(
                "a row ended in the step in which it had to restart: its autoreset "
                "mode may not be NEXT_STEP, as its metadata says",
                row=int(np.argmax(both)),
            )
        reward[self._over] = 0.0
        if self._finite.enabled and not np.abs(reward).max() <= validation.FLOAT_MAX:
            for row, value in enumerate(reward.tolist()):
                refuse(validation.reward_defects(value, row))
        self._observations.write_batch(observation)
        refuse(self._finite.check())
        self._refuse_masks(terminated & ~self._over)
        arrays, raw = self._arrays, self._batch.raw_reward
        arrays.reward[:] = reward
        arrays.terminated[:] = terminated
        arrays.truncated[:] = truncated
        self._write(reward if raw is None else np.asarray(info[raw], np.float64))
        self._write_info(info)

    def _write(self, reward: np.ndarray) -> None:
        """Write flags and statistics; rows whose episode has ended start a new one."""
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

    def _write_info(self, info: dict[str, Any]) -> None:
        for name, column in self._columns.items():
            column[:] = validation.missing_info(column.dtype)
            if name in info:
                value = validation.info_numbers(name, info[name], column)
                present = np.asarray(info.get(f"_{name}", True))
                np.copyto(column, value, "same_kind", where=present)

    def _action(self) -> Any:
        """Return a copy of the batched action; ignored actions become neutral ones."""
        space, over, flat = self._batch.action_space, self._over, []
        restarts = over.any()
        pairs = zip(spaces.leaves(space), self._arrays.action, strict=True)
        for (leaf, array), neutral in zip(pairs, self._neutral, strict=True):
            value = array.astype(leaf.space.dtype)
            if restarts:
                value[over] = neutral
            flat.append(value)
        return spaces.pack(space, flat)

    def _refuse_masks(self, terminated: np.ndarray) -> None:
        if self._no_action is not None:
            broken = self._no_action() & ~terminated
            if broken.any():
                raise observation_rules.mask_defect(int(np.argmax(broken)))

    def _count_out_of_bounds(self) -> None:
        """Count observations outside their bounds, at some steps only."""
        count = self._checks
        self._checks = count + 1
        if not validation.is_full_check(count):
            return
        outside = self._observations.outside()
        self._words[layout.OUT_OF_BOUNDS] += sum(outside.values())
        new = sorted(outside.keys() - self._noted)
        if new:
            self._noted.update(new)
            self.notes.append(f"{outside_text(new)} and not logged again")

    def _failure(self, error: BaseException, phase: str) -> Failure:
        """Describe a failure: its row if known, else the actions of all rows."""
        row, arrays = getattr(error, "row", None), self._arrays
        known: dict[str, Any] = {"phase": phase, "seed": self._seed}
        suffix = ""
        if row is None:
            which = f"one of {self._batch.num_envs} environments; it is not known which"
            suffix = f" ({which}; the seed of init was {self._seed})"
            shown, place = [array[None] for array in arrays.action], 0
        else:
            starts = bool(self._over[row])
            episode, step = int(arrays.episode[row]) + starts, int(self._lengths[row])
            known = {"env": row, "seed": construction.env_seed(self._seed, row)}
            known |= {"episode": episode, "step": 0 if starts else step}
            known["phase"] = phase = "reset" if starts else phase
            shown, place = arrays.action, row
        if phase == "step":
            known["action"] = actions.text(self._batch.action_space, shown, place)
        failure = failures.from_error(error, **known)
        return failure._replace(text=failure.text + suffix)


def _column(
    name: str, value: Any, num_envs: int, kinds: str, expected: str
) -> np.ndarray:
    array = np.asarray(value)
    if array.shape != (num_envs,) or array.dtype.kind not in kinds:
        raise Defect(
            f"{name} is {validation.kind_of(array)}; expected {expected} of shape "
            f"[{num_envs}]"
        )
    return array
