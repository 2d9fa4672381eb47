"""The contenders: one file each, and here what each of them is.

A setting of a peer is a contender of its own; tables show a peer's best one.
"""

from __future__ import annotations

from typing import NamedTuple


class Contender(NamedTuple):
    """What is to know of a contender before it runs.

    Attributes:
      peer: whose it is; the best of a peer's contenders stands for it.
      kind: of the peer's vectorisation, or another name for a group of settings.
      setting: what tells it from the others of its kind.
      own_python: whether it runs in the peers' interpreter, where that is another.
    """

    peer: str
    kind: str
    setting: str = ""
    own_python: bool = False


OURS, GYMNASIUM, SB3 = "tfagents_batch", "Gymnasium", "Stable-Baselines3"
LIMIT = "limit"  # what the environments themselves allow
NATIVE, PORTABLE = "native route", "portable route"
ASYNC, SYNC = "AsyncVectorEnv", "SyncVectorEnv"
SUBPROC, DUMMY = "SubprocVecEnv", "DummyVecEnv"

CONTENDERS = {
    "native": Contender(OURS, NATIVE, "in a compiled loop"),
    "portable": Contender(OURS, PORTABLE, "in a graph's loop"),
    "gymnasium_async": Contender(GYMNASIUM, ASYNC, "shared memory"),
    "gymnasium_async_limited": Contender(
        GYMNASIUM, ASYNC, "shared memory, max_concurrency = cores"
    ),
    "gymnasium_sync": Contender(GYMNASIUM, SYNC),
    "sb3_forkserver": Contender(SB3, SUBPROC, "forkserver", own_python=True),
    "sb3_spawn": Contender(SB3, SUBPROC, "spawn", own_python=True),
    "sb3_dummy": Contender(SB3, DUMMY, own_python=True),
    "bare": Contender(LIMIT, "bare environments", "a process per core"),
}
