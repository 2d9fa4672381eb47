"""The export that answers, the one before it, and the change from one to the other."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.serving import description as described
from tfagents_batch.serving.observations import Reader
from tfagents_batch.serving.predictor import Predictor
from tfagents_batch.serving.reading import Call
from tfagents_batch.serving.rows import DecisionRows
from tfagents_batch.serving.server.arrivals import Refused

NICE = 10  # of the thread that loads; the event loop gets the processor first
_SWITCH_SECONDS = 0.001  # while one loads; always, it would cost 0.1 ms a request
SLOW_SECONDS = 0.002  # of a run on the parity rows, above which it needs a thread
_OF_A_DECISION = ("action", "sample", "propensity", "log_density")


class ServedModel:
    """An export that can answer, with a reader of its observations.

    Attributes:
      rows: writes its decisions, if they are logged.
      needed: names of the outputs that belong to a decision.
      slow: whether a run would hold up the event loop.
    """

    def __init__(self, folder: str, threads: int, logs: bool, call: Call):
        self.predictor = Predictor.load(folder, threads=threads, call=call)
        self.description = self.predictor.description
        self.reader = Reader(self.description)
        self.rows: Any = DecisionRows(self.description) if logs else None
        names = [x.name for x in self.description.outputs]
        states = {f"next_{x.name}" for x in self.description.with_role("state")}
        parts = {x.name for x in self.description.action_parts}
        self.needed = [x for x in names if x in {*states, *parts, *_OF_A_DECISION}]
        self.slow = self.predictor.seconds > SLOW_SECONDS


class Models:
    """The current model and the previous one; used in one event loop.

    Args:
      folder: export to begin with.
      threads: threads of a run.
      logs: whether decisions are logged.
      remember: called with the folder of an export that takes over.

    Attributes:
      swaps, refusals: numbers of exports that took over, and that were refused.

    Raises:
      UserError: if the export cannot be served.
    """

    def __init__(
        self, folder: str, threads: int, logs: bool, remember: Callable[[str], None]
    ):
        self._options, self._remember = (threads, logs, self._call), remember
        # Two threads for all loads: each new thread would get memory of its own. What
        # takes long runs in the one of low priority, without Python's lock. All else
        # runs in the other one: a thread of low priority that holds the lock, and waits
        # for a processor, would hold up the event loop.
        self._loader = ThreadPoolExecutor(1, "loader")
        self._nice = ThreadPoolExecutor(1, "nice", initializer=_be_nice)
        try:
            # In these threads as well, so that later loads use the memory of this one.
            loading = self._loader.submit(ServedModel, folder, *self._options)
            self.current: ServedModel = loading.result()
        except BaseException:
            self.close()
            raise
        self.previous: ServedModel | None = None
        self.swaps = self.refusals = 0
        self._loading = False

    def close(self) -> None:
        """End the threads; may be called again."""
        self._loader.shutdown()
        self._nice.shutdown()

    def _call(self, function: Callable, *arguments: Any) -> Any:
        return self._nice.submit(function, *arguments).result()

    async def load(self, folder: str) -> ServedModel:
        """Load an export beside the current one, which it then replaces at once.

        Raises:
          UserError: if it is truncated, fails its parity check, or has other
            observations or actions. The current one goes on.
          Refused: with 409, while another one is loaded.
        """
        if self._loading:
            raise Refused(409, "another export is being loaded; try again later", 1)
        self._loading, interval = True, sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        loop = asyncio.get_running_loop()
        in_thread = functools.partial(loop.run_in_executor, self._loader)
        try:
            model = await in_thread(ServedModel, folder, *self._options)
            changed = described.difference(self.current.description, model.description)
            if changed:
                raise UserError(
                    f"{folder} has another interface: {changed}; use another server"
                )
        except Exception as error:  # whatever is wrong with it, the current one goes on
            self.refusals += 1
            if isinstance(error, UserError):
                raise
            raise UserError(
                f"{folder} cannot be loaded: {type(error).__name__}: {error}; export "
                "or copy it again"
            ) from error
        finally:
            self._loading = False
            sys.setswitchinterval(interval)
        oldest = [self.previous]
        self._swap(model)
        await in_thread(oldest.clear)  # freeing a large model takes milliseconds
        return model

    def roll_back(self) -> ServedModel:
        """Exchange the current model and the previous one.

        Raises:
          Refused: with 409, if there is no previous one or one is being loaded.
        """
        if self._loading or self.previous is None:
            why = "an export is being loaded" if self._loading else "there is none"
            raise Refused(409, f"the previous export cannot come back: {why}")
        self._swap(self.previous)
        return self.current

    def _swap(self, model: ServedModel) -> None:
        self.previous, self.current = self.current, model
        self.swaps += 1
        self._remember(str(model.description.folder))


def _be_nice() -> None:
    """Lower the priority of this thread, as Linux can."""
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
