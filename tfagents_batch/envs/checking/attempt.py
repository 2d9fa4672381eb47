"""Calls of an environment whose exceptions become findings."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tfagents_batch.envs import failures
from tfagents_batch.envs.checking.findings import DEFECT, Place, Report

# As in a worker; Ctrl-C is the user's.
CATCH = (Exception, SystemExit)
# Frames of these files only lead to the environment's.
_HERE = os.path.dirname(__file__)
_OURS = [os.path.join(_HERE, name) for name in ("attempt.py", "check.py", "play.py")]


def attempt(
    report: Report,
    place: Place,
    function: Callable,
    *args: Any,
    **kwargs: Any,
) -> tuple[bool, Any]:
    """Call a function of an environment.

    Args:
      report: gets an exception as a defect.
      place: of the call.
      function: called with the rest.

    Returns:
      whether it returned, and what.
    """
    given = [short(value) for value in args]  # before anything can change it
    try:
        return True, function(*args, **kwargs)
    except CATCH as error:
        frames = error.__traceback__
        while frames and frames.tb_frame.f_code.co_filename in _OURS:
            frames = frames.tb_next
        traced = failures.describe(error.with_traceback(frames))["traceback_text"]
        action = f", with action {given[0]}" if given else ""
        kind, call = f"raised {type(error).__name__}", place.call
        text = f"{call} raised {words(error)}{action}; expected no exception: see its "
        report.add(DEFECT, kind, call, f"{text}traceback", place, traced)
        return False, None


def words(error: BaseException) -> str:
    """Class and text of an exception in one line."""
    described = failures.describe(error)
    return short(f"{described['type_name']}: {described['text']}")


def short(value: Any) -> str:
    """A value as one line of bounded length."""
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else f"{text[:200]}..."
