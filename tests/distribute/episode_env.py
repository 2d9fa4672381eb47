"""Environments that fail, hang or kill what plays them; they need no TensorFlow."""

import functools
import os
import pathlib
import signal
import time

import gymnasium
import psutil


class Faulty(gymnasium.Wrapper):
    """CartPole with a fault in the fifth step.

    Args:
      folder: a fault leaves a file here; without the folder there is none.
      fails, hangs: raise an exception, or do not return.
      kills: kill the process of Java above, once.
    """

    def __init__(self, folder, fails=False, hangs=False, kills=False):
        super().__init__(gymnasium.make("CartPole-v1", max_episode_steps=30))
        self._folder, self._steps = pathlib.Path(folder), 0
        self._fails, self._hangs, self._kills = fails, hangs, kills

    def step(self, action):
        self._steps += 1
        if self._steps == 5 and self._folder.exists():
            self._fault()
        return super().step(action)

    def _fault(self):
        mark = self._folder / ("killed" if self._kills else str(os.getpid()))
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return
        if self._fails:
            raise ValueError("broken on purpose")
        if self._hangs:
            time.sleep(600)
        if self._kills:
            above = psutil.Process().parents()
            java = next(each for each in above if each.name() == "java")
            java.send_signal(signal.SIGKILL)


def maker(folder, **faults):
    """Return a function that creates the environment."""
    return functools.partial(Faulty, str(folder), **faults)
