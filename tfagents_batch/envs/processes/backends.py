"""Choice of the backend that commands the workers: the native hub or Python.

"native" needs a C++ compiler at first use. Without one, "auto" selects "portable".
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from tfagents_batch import spaces
from tfagents_batch.envs.shared import arguments
from tfagents_batch.envs.shared.options import AUTO, NATIVE, PORTABLE
from tfagents_batch.errors import UserError

_LOG = logging.getLogger("tfagents_batch")


def choose(backend: str, num_workers: int) -> tuple[Any, str]:
    """Load the library of the native hub, if it is requested.

    None stands for the portable backend, with the reason. A UserError is raised if the
    native one is requested but unavailable.
    """
    arguments.one_of("backend", backend, (AUTO, NATIVE, PORTABLE))
    if num_workers == 0:
        reason = "they are stepped in this process (num_workers=0)"
    elif backend == PORTABLE:
        reason = "backend='portable' was requested"
    else:
        from tfagents_batch.envs.native import build

        try:
            return build.library(), ""
        except build.Unavailable as error:
            reason = str(error)
    if backend == NATIVE:
        raise UserError(f"backend='native' is unavailable: {reason}")
    return None, reason


def refuse_groups(num_groups: int, reason: str) -> None:
    """Raise UserError for several groups without the native backend."""
    if reason and num_groups > 1:
        raise UserError(
            f"groups is {num_groups}, but send and receive need the native backend, "
            f"which is unavailable: {reason}; leave groups out, and use step"
        )


def log_choice(num_envs: int, num_workers: int, reason: str, wanted: bool) -> None:
    """Log the backend in one line; warn of a portable one if the native was wanted."""
    who = f"{num_envs} environments in {num_workers} worker processes"
    if not reason:
        _LOG.info("%s: native backend", who)
    else:
        level = logging.WARNING if wanted else logging.INFO
        text = "%s: portable backend, slower and not compilable, because %s"
        _LOG.log(level, text, who, reason)


def unsuited(
    observation: Sequence[spaces.Leaf], action: Sequence[spaces.Leaf], columns: int
) -> str:
    """Return why the hub does not support these leaves and info columns, or ""."""
    from tfagents_batch.envs.native import hub

    for name, leaves in {"observation": observation, "action": action}.items():
        if len(leaves) + columns + 8 > hub.MAX_BUFFERS:
            return f"the {name} space has {len(leaves)} leaves"
    for leaf in [*observation, *action]:
        if leaf.dtype not in hub.DTYPES:
            return f"a leaf of a space is {leaf.dtype}"
    if any(leaf.dtype == "float16" for leaf in action):
        return "an action is float16"
    return ""
