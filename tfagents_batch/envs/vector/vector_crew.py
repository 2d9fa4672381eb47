"""A batch that exists already, behind the commands that worker processes obey.

It is stepped in this process, as a whole: the counterpart of ``local.LocalCrew``.
There are no deadlines, nothing could end a call that hangs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs import actions, failures, layout, protocol, stepper, validation
from tfagents_batch.envs.failures import Defect, Failure
from tfagents_batch.envs.outcome import Context, Fault, Outcome
from tfagents_batch.envs.vector import batch_validation
from tfagents_batch.envs.vector.autoreset import Stepped

# Ctrl-C is the user's here, so KeyboardInterrupt is not an environment's failure.
_CATCH = (Exception, SystemExit)


@runtime_checkable
class Steppable(Protocol):
    """What the crew drives; restarts are those of NEXT_STEP."""

    num_envs: int
    observation_space: gymnasium.Space
    action_space: gymnasium.Space
    max_episode_steps: int | None

    def reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        """Batched observation and infos of first steps; row i is i's of ``seed``."""

    def step(self, action: Any, over: np.ndarray) -> Stepped:
        """Step; rows that are ``over`` restart."""

    def close(self, failed: bool) -> None:
        """Free everything; ``failed`` if it may not answer any more."""


class VectorCrew:
    """Obeys resets and steps by a ``Steppable``, writing into the pool's arrays.

    Args:
      batch: the environments.
      arrays: views of all rows.
      finite_check: "raise" makes NaN and infinity a failure, "off" passes them on.

    Attributes:
      unused: steps taken that no row shows, since the start.
      outside: observations seen outside their space, since the start.
    """

    workers = ()
    size = 1

    def __init__(self, batch: Steppable, arrays: layout.Arrays, finite_check: str):
        self.unused = 0
        self.outside = 0
        self._batch = batch
        self._arrays = arrays
        self._finite = finite_check == stepper.RAISE
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
        self._stopping = self._closed = self._failed = False

    def command(
        self,
        code: int,
        payloads: Sequence[Any] | None,
        limits: Sequence[float | None],
        descriptors: Sequence[int] | None = None,
        context: Context = lambda row: {},
    ) -> Outcome:
        outcome = Outcome()
        if not self._stopping:
            try:
                if code == protocol.STEP:
                    self._step()
                else:
                    self._reset(payloads[0]["seed"])
                self._look(outcome, "step" if code == protocol.STEP else "reset")
            except _CATCH as error:
                phase = "step" if code == protocol.STEP else "reset"
                self._fail(outcome, error, phase, context)
            except BaseException:  # Ctrl-C: a row may be half stepped
                self._failed = True
                self.stop()
                raise
        if self._stopping:
            outcome.stopped = True
            outcome.lost = set(range(self._batch.num_envs))
        return outcome

    def idle_crashes(self, context: Context) -> list[Fault]:
        return []

    def stop(self) -> None:
        self._stopping = True

    @property
    def stopping(self) -> bool:
        return self._stopping

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.stop()
            self._batch.close(self._failed)

    def _reset(self, seed: int) -> None:
        self._seed = seed
        space, arrays = self._batch.observation_space, self._arrays
        observation, info = self._batch.reset(seed)
        flat = batch_validation.flatten(space, observation, "observation")
        self._observations.read(flat)
        self._over[:] = True  # all rows start
        arrays.episode[:] = -1
        arrays.seed[:] = [stepper.env_seed(seed, i) for i in range(len(self._over))]
        self._write(np.zeros(len(self._over)))
        self._write_info(info)

    def _step(self) -> None:
        stepped = self._batch.step(self._action(), self._over)
        if self._finite:
            batch_validation.finite_reward(stepped.reward)
        self._observations.read(stepped.observation)
        if len(stepped.rows):
            self._observations.read(stepped.rows_observation, stepped.rows)
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

    def _look(self, outcome: Outcome, phase: str) -> None:
        """NaN in all rows at once, and now and then the bounds."""
        if self._finite:
            for row, name in self._observations.not_finite().items():
                error = Defect(f"{name} has NaN or infinite values")
                started = bool(self._arrays.first[row])
                phase = "reset" if started else "step"
                known = self._known(row, phase, int(self._lengths[row]) - 1)
                outcome.faults.append(Fault(_failure(error, known), None))
                outcome.lost.add(row)
                self._failed = True
        count = self._checks
        self._checks = count + 1
        if count >= validation.FULL_CHECKS and count % validation.FULL_CHECK_EVERY:
            return
        outside = self._observations.outside()
        self.outside += sum(outside.values())
        new = sorted(outside.keys() - self._noted)
        if new:
            self._noted.update(new)
            note = (
                f"{', '.join(new)} lies outside the bounds of its space; counted in "
                "env/observation_out_of_bounds and not said again"
            )
            outcome.replies[0] = {"notes": [note]}

    def _fail(
        self, outcome: Outcome, error: BaseException, phase: str, context: Context
    ) -> None:
        """The whole batch is lost; say which row it was, where that is known."""
        self._failed = True
        row = getattr(error, "row", None)
        if row is None:
            found = _failure(error, self._known_of_all(phase))
            which = f"which of the {self._batch.num_envs} environments is not known"
            text = f"{found.text} ({which}; the seed of init was {self._seed})"
            found = found._replace(text=text)
        else:
            found = _failure(error, context(row) | {"env": row, "phase": phase})
        outcome.faults.append(Fault(found, None))
        outcome.lost.update(range(self._batch.num_envs))

    def _known(self, row: int, phase: str, step: int) -> dict[str, Any]:
        arrays, stepping = self._arrays, phase == "step"
        space = self._batch.action_space
        return {
            "env": row,
            "seed": stepper.env_seed(self._seed, row),
            "episode": int(arrays.episode[row]),
            "phase": phase,
            "step": step if stepping else 0,
            "action": actions.text(space, arrays.action, row) if stepping else None,
        }

    def _known_of_all(self, phase: str) -> dict[str, Any]:
        """Seed of ``init`` and everybody's action."""
        known: dict[str, Any] = {"phase": phase, "seed": self._seed}
        if phase == "step":
            space, arrays = self._batch.action_space, self._arrays.action
            known["action"] = actions.text(space, [array[None] for array in arrays], 0)
        return known


def _failure(error: BaseException, known: dict[str, Any]) -> Failure:
    described = failures.describe(error)
    return Failure(failures.ERROR, cause=error, **known, **described)


def _neutral(leaf: spaces.Leaf) -> Any:
    """An action for rows whose action is ignored: 0, or what is nearest to it."""
    space = leaf.space
    if isinstance(space, gs.Box):
        return np.clip(0, space.low, space.high).astype(space.dtype)
    if isinstance(space, gs.MultiBinary):
        return 0
    return np.asarray(space.start)
