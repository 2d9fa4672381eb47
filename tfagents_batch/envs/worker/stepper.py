"""Stepping of a list of Gymnasium environments over rows of shared arrays.

Worker processes and in-process stepping both run this code, so they behave alike.
After the end of an episode, the next step resets the environment, without an action.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfagents_batch.envs.shared import (
    actions,
    failures,
    layout,
    observation_rules,
    observations,
    options,
    validation,
)
from tfagents_batch.envs.shared.failures import Defect, Failure
from tfagents_batch.envs.shared.observations import FiniteCheck
from tfagents_batch.envs.shared.validation import FLOAT_MAX, refuse
from tfagents_batch.envs.worker import construction
from tfagents_batch.envs.wrappers.adapt import create


class Stepper:
    """Stepper of environments that writes the results into their rows.

    The row of an environment that fails is marked both first and truncated, with
    reward 0; other rows are not affected. The reader of the row restores its last
    observation. With ``spare``, the next step replaces the environment.

    Args:
      envs: constructed environments with equal spaces.
      arrays, words: views of their rows, and control words of this worker, uint32.
      first_row: index of the first environment in the batch.
      finite_check, strict: ``finite_check`` and ``strict_bounds`` of ``EnvOptions``.
      catch: exceptions of environments that become failures.
      spare: data for replacing failed environments; None does not replace them.
    """

    def __init__(
        self,
        envs: Sequence[Any],
        arrays: layout.Arrays,
        words: Any,
        first_row: int,
        finite_check: str = options.RAISE,
        strict: bool = False,
        catch: construction.Catch = BaseException,
        spare: construction.Spare | None = None,
    ):
        count = len(envs)
        self._envs = list(envs)
        self._steps = [env.step for env in envs]
        self._arrays = arrays
        self._words = words
        self._first_row = first_row
        self._strict = strict
        self._catch: Any = catch
        self._spare = spare
        self._restarts = list(spare.restarts) if spare else [0] * count
        self._broken = [False] * count
        self._unseeded = [False] * count  # rows to seed at their next reset
        space = envs[0].action_space
        self._actions = actions.ActionReader(space, arrays.action)
        space = envs[0].observation_space
        self._observations = observations.ObservationWriter(space, arrays.observation)
        self._observe = self._observations.write
        self._no_action = observation_rules.mask_rows(
            space, envs[0].action_space, arrays.observation
        )
        # Single items are cheaper to access through memoryviews.
        columns = arrays.reward, arrays.terminated, arrays.truncated
        view: Any = memoryview
        self._step_columns = [view(column) for column in columns]
        statistics = (arrays.info[name] for name in layout.STATISTICS)
        self._statistics = [view(column) for column in statistics]
        self._columns = arrays.info_columns()
        self._seeds: list[int | None] = [None] * count
        self._episodes = [-1] * count
        self._lengths = [0] * count
        self._returns = [0.0] * count  # float64, of raw rewards
        self._over = [False] * count
        self._noted: set[tuple[int, int]] = set()  # rows and messages already reported
        self._finite = FiniteCheck(finite_check, self._observations, arrays, self._note)
        self._timing = view(arrays.timing)
        self._checks = 0
        self._full = True
        self._phase = "reset"
        self.notes: list[str] = []  # messages for the log; the reader empties the list

    def reset(self, seed: int) -> list[Failure]:
        """Seed and reset every environment."""
        self._begin()
        faults = []
        for row in range(len(self._envs)):
            self._episodes[row] = -1
            try:
                self._start(row, construction.env_seed(seed, self._first_row + row))
            except self._catch as error:
                faults.append(self._fail(row, error))
        return self._finish(faults)

    def take_over(self) -> None:
        """Continue the rows of a worker process that has ended."""
        count = len(self._envs)
        self._over, self._unseeded = [True] * count, [True] * count
        self._episodes = self._arrays.episode.tolist()

    def step(self) -> list[Failure]:
        """Step every row with the actions in the arrays."""
        started = time.perf_counter_ns()
        self._begin()
        arrays, words = self._arrays, self._words
        arrays.first[:] = False
        faults: list[Failure] = []
        # Local variables are fast, and this loop limits how fast environments step.
        over, steps, observe = self._over, self._steps, self._observe
        lengths, returns = self._lengths, self._returns
        rewards, terminations, truncations = self._step_columns
        return_column, length_column = self._statistics
        index, largest, finite = self._first_row, FLOAT_MAX, self._finite.enabled
        full, columns = self._full, bool(self._columns)
        row_word, stop_word = layout.ROW, layout.STOP
        for row, action in enumerate(self._actions.read()):
            if words[stop_word]:
                break
            words[row_word] = index + row
            try:
                if over[row]:
                    self._start(row, None)
                    continue
                self._phase = "step"
                result = steps[row](action)
                if type(result) is not tuple or len(result) != 5:
                    refuse(validation.step_defects(result))
                observation, reward, terminated, truncated, info = result
                if (
                    type(reward) is not float
                    or (terminated is not True and terminated is not False)
                    or (truncated is not True and truncated is not False)
                    or type(info) is not dict
                ):
                    reward, terminated, truncated = validation.plain(result)
                if not -largest <= reward <= largest and finite:
                    reward = self._finite.reward(row, reward)
                observe(row, observation)
                if full:
                    self._inspect(row, observation)
                if columns:
                    self._copy_info(row, info)
                lengths[row] = length_column[row] = lengths[row] + 1
                returns[row] = return_ = returns[row] + reward
                rewards[row] = reward
                terminations[row] = terminated
                truncations[row] = truncated
                over[row] = terminated or truncated
                return_column[row] = return_
            except self._catch as error:
                faults.append(self._fail(row, error))
        faults = self._finish(faults)
        duration = (time.perf_counter_ns() - started) // 1000
        self._timing[self._checks % layout.TIMINGS] = min(duration, layout.LONGEST) + 1
        return faults

    @property
    def any_ended(self) -> bool:
        """Return whether an episode ended in the last step."""
        return any(self._over)

    def close(self) -> list[Failure]:
        """Close every environment, even if another one fails to close."""
        faults = []
        for row, env in enumerate(self._envs):
            self._words[layout.ROW] = self._first_row + row
            try:
                env.close()
            except self._catch as error:
                faults.append(
                    failures.from_error(error, env=self._first_row + row, phase="close")
                )
        self._envs, self._steps = [], []
        return faults

    def _begin(self) -> None:
        count = self._checks
        self._full = self._strict or validation.is_full_check(count)
        self._checks = count + 1

    def _start(self, row: int, seed: int | None) -> None:
        """Reset one environment and write its row."""
        arrays = self._arrays
        self._words[layout.ROW] = self._first_row + row
        if self._broken[row]:
            self._replace(row)
        self._phase = "reset"
        if seed is None and self._unseeded[row]:
            assert self._spare is not None  # as the row was replaced
            index, restarts = self._first_row + row, self._restarts[row]
            seed = construction.env_seed(self._spare.seed(), index, restarts)
        if seed is not None:
            self._seeds[row] = arrays.seed[row] = seed
            self._envs[row].action_space.seed(seed)
        self._episodes[row] += 1
        self._lengths[row] = 0
        self._returns[row] = 0.0
        arrays.episode[row] = self._episodes[row]
        env = self._envs[row]
        result = env.reset() if seed is None else env.reset(seed=seed)
        self._unseeded[row] = False
        refuse(validation.reset_defects(result))
        self._observe(row, result[0])
        if self._full:
            self._inspect(row, result[0])
        arrays.reward[row] = 0.0
        arrays.first[row] = True
        arrays.terminated[row] = arrays.truncated[row] = self._over[row] = False
        return_column, length_column = self._statistics
        return_column[row] = length_column[row] = 0
        if self._columns:
            self._copy_info(row, result[1])

    def _replace(self, row: int) -> None:
        """Replace a failed environment by a new one."""
        self._phase = "construct"
        self._restarts[row] += 1
        with contextlib.suppress(self._catch):
            self._envs[row].close()
        assert self._spare is not None  # otherwise a failure ends the run
        env = create(self._spare.constructors[row])
        facts = construction.inspect(env)
        construction.check_replacement(self._spare.facts[row], facts)
        self._envs[row], self._steps[row] = env, env.step
        self._broken[row], self._unseeded[row] = False, True

    def _inspect(self, row: int, observation: Any) -> None:
        outside = self._observations.inspect(observation)
        if not outside:
            return
        if self._strict:
            raise Defect(
                f"{', '.join(outside)} lies outside the bounds of its space: correct "
                "the environment or its observation_space"
            )
        self._note(row, layout.OUT_OF_BOUNDS, observations.outside_text(outside))

    def _copy_info(self, row: int, info: dict) -> None:
        for name, column in self._columns.items():
            value = info.get(name)
            if value is None:
                column[row] = validation.missing_info(column.dtype)
            else:
                column[row] = validation.info_numbers(name, value, column[row])

    def _fail(self, row: int, error: BaseException) -> Failure:
        """Mark a row as failed and record why."""
        self._mark_failed(row)
        if self._spare is not None:
            self._broken[row] = self._over[row] = True
        stepping = self._phase == "step"
        return failures.from_error(
            error,
            env=self._first_row + row,
            seed=self._seeds[row],
            episode=self._episodes[row],
            step=self._lengths[row] if stepping else 0,
            action=self._actions.text(row) if stepping else None,
            phase=self._phase,
        )

    def _fail_late(self, row: int, error: Defect) -> Failure:
        """Fail a row whose reset or step was complete."""
        started = bool(self._arrays.first[row])
        self._phase = "reset" if started else "step"
        self._lengths[row] -= not started  # number of this step itself
        return self._fail(row, error)

    def _finish(self, faults: list[Failure]) -> list[Failure]:
        """Check all rows for NaN and masks at once, which is cheaper than singly."""
        failed = {x.env - self._first_row for x in faults if x.env is not None}
        for defect in self._finite.check(failed):
            assert defect.row is not None  # of a row that was looked at
            faults.append(self._fail_late(defect.row, defect))
        if self._no_action is not None:
            arrays = self._arrays
            fine = arrays.terminated | (arrays.first & arrays.truncated)  # or failed
            for row in np.flatnonzero(self._no_action() & ~fine):
                defect = observation_rules.mask_defect()
                faults.append(self._fail_late(int(row), defect))
        for row in self._finite.truncated():
            self._mark_failed(row)
            self._over[row] = True
        self._words[layout.ROW] = layout.NO_ROW
        return faults

    def _note(self, row: int, word: int, text: str) -> None:
        """Count a problem that is not a failure; report it once per environment."""
        self._words[word] += 1
        if (row, word) not in self._noted:
            self._noted.add((row, word))
            once = "and logged once per environment"
            self.notes.append(f"env {self._first_row + row}: {text} {once}")

    def _mark_failed(self, row: int) -> None:
        arrays = self._arrays
        arrays.reward[row], arrays.terminated[row] = 0.0, False
        arrays.first[row] = arrays.truncated[row] = True
