"""Saves the replay of a run on a clock of its own, and restores it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from tfagents_batch.errors import SaveError
from tfagents_batch.interfaces import Source
from tfagents_batch.schedules import EverySeconds
from tfagents_batch.training.run_folder import replay_file

_RATE = 200e6  # bytes per second, until the first replay is written


class ReplaySaver:
    """Writes a replay after the weights of the same step.

    Args:
      source: source of the run; nothing is done if it is no replay.
      folder: run folder.
      report: called with a line of text.
    """

    def __init__(
        self, source: Source, folder: str | os.PathLike, report: Callable[[str], None]
    ):
        self._source, self._folder, self._report = source, folder, report
        self._on = has_own_file(source)
        self._clock = EverySeconds(source.config.save_every if self._on else 0)
        self._rate, self._saved = _RATE, -1

    def due(self) -> bool:
        """Return whether the clock asks for a save."""
        return self._on and self._clock()

    def save(self, step: int, seconds_left: float) -> None:
        """Write the replay, unless this step is saved or the time does not suffice."""
        if not self._on or step == self._saved:
            return
        variables = self._source.named_variables()
        size = replay_file.size(variables)
        if size / self._rate > seconds_left:
            self._report(
                f"the replay ({size / 1e9:.1f} GB) is not saved, because its write "
                "does not fit the time after a signal; a resumed run collects anew"
            )
            return
        begin = time.perf_counter()
        try:
            replay_file.save(self._folder, step, variables)
        except SaveError as error:
            self._report(f"warning: {error}; training continues")
            return
        self._saved = step
        # Only large replays tell the speed of the disk.
        if size > 1e8:
            self._rate = size / (time.perf_counter() - begin)


def has_own_file(source: Any) -> bool:
    """Return whether a source is saved in files of its own, see ``Source``."""
    return getattr(source, "own_file", False)


def restore(
    source: Any, folder: str | os.PathLike, step: int, exact: bool, begin: int
) -> str:
    """Restore the replay of a resumed run.

    Args:
      source: source of the run.
      folder: run folder.
      step: step of the weights.
      exact: whether environments can continue from their variables.
      begin: steps without updates if there is no replay, the warm-up.

    Returns:
      A line for the console; empty if the source is no replay.

    Raises:
      UserError: if the replay cannot be used.
    """
    if not has_own_file(source):
        return ""
    found = replay_file.newest(folder, step)
    if found is None:
        source.postpone(step + begin)
        return f"there is no replay; updates begin after {begin:,} steps"
    same = exact and found == step
    variables = {
        name: variable
        for name, variable in source.named_variables().items()
        if same or not name.startswith("inner/")
    }
    replay_file.load(folder, found, variables)
    if not same:
        source.interrupt()
    missing = f"; it lacks the last {step - found:,} steps" if found < step else ""
    return f"restored the replay of step {found:,}{missing}"
