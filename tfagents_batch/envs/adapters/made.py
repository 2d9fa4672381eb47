"""From a constructor to one environment that looks like one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from tfagents_batch.envs import validation
from tfagents_batch.envs.adapters.adapt import adapt


def made_by(make: Callable[[], Any]) -> Any:
    """What ``make`` returns, adapted; closed again if it is no environment.

    Raises:
      Defect: if it is none; UserError, and whatever ``make`` raises.
    """
    made = make()
    try:
        env = adapt(made)
        validation.environment(env)
    except BaseException:
        with contextlib.suppress(Exception):  # the first error is the one to tell
            getattr(made, "close", lambda: None)()
        raise
    return env
