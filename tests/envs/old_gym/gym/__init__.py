"""A stand-in for gym 0.21, for tests: its interface and no more.

A release that old cannot be installed beside a recent setuptools. What differs from
0.26: ``step`` returns ``done``, ``reset`` the observation alone, ``seed`` is a method,
``render`` takes the mode, ``make`` knows no checker and hands every argument on, and
the registry is an object. Written for these tests, after the interface's description.
"""

from gym import envs, spaces, wrappers
from gym.core import Env, Wrapper
from gym.envs.registration import make, register

__version__ = "0.21.0"
__all__ = ["Env", "Wrapper", "envs", "make", "register", "spaces", "wrappers"]
