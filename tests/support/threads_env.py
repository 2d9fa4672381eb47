"""Environment that notes in which threads it is used."""

from __future__ import annotations

import threading

from tfagents_batch.envs.testing import CountingEnv


class Threads(CountingEnv):
    """Environment that adds the thread of each call to ``seen``."""

    def __init__(self, seen: set):
        self._seen = seen
        self._note()
        super().__init__()

    def reset(self, **options):
        self._note()
        return super().reset(**options)

    def step(self, action):
        self._note()
        return super().step(action)

    def close(self):
        self._note()

    def _note(self):
        self._seen.add(threading.get_ident())
