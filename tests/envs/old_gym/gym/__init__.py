"""A stand-in for gym 0.21 with its interface only, for tests.

gym 0.21 itself cannot be installed beside a recent setuptools. It differs from 0.26:
``step`` returns ``done``, ``reset`` returns the observation alone, ``seed`` is a
method, ``render`` takes the mode, ``make`` has no checker and passes all arguments on,
and the registry is an object.
"""

from gym import envs, spaces, wrappers
from gym.core import Env, Wrapper
from gym.envs.registration import make, register

__version__ = "0.21.0"
__all__ = ["Env", "Wrapper", "envs", "make", "register", "spaces", "wrappers"]
