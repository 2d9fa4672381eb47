"""``tf.function`` that raises failures of environments when it returns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfagents_batch.envs.processes import interrupts


def function(
    fn: Callable | None = None, *, envs: Sequence[Any] | None = None, **options: Any
) -> Any:
    """Create a ``tf.function`` that checks environments when it returns.

    A program that is aborted half-way leaves its variables half-written, so
    environments only set a flag there, and this wrapper raises their ``EnvError`` (or
    ``Stopped``) once the program has returned. Ctrl-C ends environments of the native
    backend at once; ``KeyboardInterrupt`` follows.

    Args:
      fn: a Python function; None returns a decorator.
      envs: environments to check; None checks every environment of this process.
      options: options of ``tf.function``.

    Returns:
      a callable with the attributes of the ``tf.function`` it wraps.
    """
    if fn is None:
        return functools.partial(function, envs=envs, **options)
    return _Checked(tf.function(fn, **options), envs)


class _Checked:
    def __init__(self, compiled: Any, envs: Sequence[Any] | None):
        self._compiled = compiled
        self._envs = envs
        python = getattr(compiled, "python_function", None)
        if python is not None:
            functools.update_wrapper(self, python)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            with interrupts.guard():
                result = self._compiled(*args, **kwargs)
        except Exception:
            # A failed environment may be the cause, and its own error says more.
            _check(self._envs)
            raise
        _check(self._envs)
        return result

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return _Checked(self._compiled.__get__(instance, owner), self._envs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_compiled"], name)


def _check(envs: Sequence[Any] | None) -> None:
    if tf.inside_function():
        return
    if envs is None:
        envs = list(interrupts.POOLS)
    for env in envs:
        check = getattr(env, "check", None)  # TensorBatch has none
        if check is not None:
            check()
