"""Budget for restarts of failed environments, and record of their failures."""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tfagents_batch.envs.shared import failures, options
from tfagents_batch.envs.shared.failures import Failure
from tfagents_batch.errors import headline

FAILED, RESTARTED = "env_failed", "env_restarted"  # events
_CAUSES = 5  # number of failures listed when no restart is left


class RestartBudget:
    """Thread-safe budget of restarts and record of failures.

    A restart is refused if the environment was restarted less than ``period`` seconds
    ago, because it would probably fail again, or if it had ``limit`` restarts.
    """

    def __init__(
        self,
        num_envs: int,
        limit: int = options.MAX_RESTARTS,
        period: float = options.RESTART_PERIOD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.give_up: Callable[[Exception], Any] = lambda error: None  # if refused
        self._limit = limit
        self._period = period
        self._clock = clock
        self._lock = threading.Lock()
        self._times: list[list[float]] = [[] for _ in range(num_envs)]
        self._replaced = [0] * num_envs
        self._causes: collections.deque[str] = collections.deque(maxlen=_CAUSES)
        self._events: list[dict[str, Any]] = []
        self.count = 0  # restarts granted since the start

    def grant(self, fault: Failure, rows: Sequence[int], charge: bool = True) -> bool:
        """Return whether the environments ``rows`` may be replaced; give up if not.

        If the failure names no environment, all of them are charged. Without ``charge``
        the restart does not count against the limits.
        """
        charged = rows if fault.env is None else [fault.env]
        charged = charged if charge else ()
        with self._lock:
            now = self._clock()
            error = failures.to_exception(fault)
            self._causes.append(headline(error))
            refusals = ((row, self._refusal(row, now)) for row in charged)
            refused = next((pair for pair in refusals if pair[1]), None)
            if refused is None:
                for row in charged:
                    self._times[row].append(now)
                for row in rows:
                    self._replaced[row] += 1
                self.count += 1
                who = self._event(FAILED, fault, rows)
                who |= {"error": type(error).__name__, "cause": headline(error)}
                self._events.append(who)
                return True
            causes = "\n".join(f"  {cause}" for cause in self._causes)
        row, reason = refused
        again = f"env {row} failed again {reason}. The last causes:\n{causes}"
        error.args = (f"{again}\n\n{error}",)
        self.give_up(error)
        return False

    def grant_in_worker(self, fault: Failure) -> bool:
        """Grant and record the restart of one environment by its own worker."""
        assert fault.env is not None  # its worker names it
        rows = [fault.env]
        granted = self.grant(fault, rows)
        if granted:
            self.record(fault, rows)
        return granted

    def record(self, fault: Failure, rows: Sequence[int], seconds: float = 0.0) -> None:
        """Record that ``rows`` restart after some seconds."""
        with self._lock:
            event = self._event(RESTARTED, fault, rows)
            self._events.append({**event, "seconds": round(seconds, 3)})

    def restarts(self) -> list[int]:
        """Return the number of restarts of each environment."""
        with self._lock:
            return list(self._replaced)

    def events(self) -> list[dict[str, Any]]:
        """Return the events since the last call.

        Returns:
          dicts of ``event``, ``env`` that failed (None if unknown), its ``worker``,
          lost ``envs`` and ``restarts`` so far. The event "env_failed" also has
          ``error`` and ``cause``; "env_restarted", which follows, has ``seconds``.
        """
        with self._lock:
            events, self._events = self._events, []
        return events

    def _event(self, kind: str, fault: Failure, rows: Sequence[int]) -> dict[str, Any]:
        return {
            "event": kind,
            "env": fault.env,
            "envs": list(rows),
            "worker": fault.worker,
            "restarts": max(self._replaced[row] for row in rows),
        }

    def _refusal(self, row: int, now: float) -> str | None:
        times = self._times[row]
        if len(times) >= self._limit:
            return f"after {len(times)} restarts, the limit (max_restarts)"
        if times and now - times[-1] < self._period:
            since = now - times[-1]
            return (
                f"{since:.1f} s after it was replaced, earlier than {self._period:g} s "
                "(restart_period_seconds)"
            )
        return None
