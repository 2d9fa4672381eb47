"""``tf.function`` that raises failures of environments when it returns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import record

from tfagents_batch.devices import placement
from tfagents_batch.envs.processes import interrupts, owner_thread


def function(
    fn: Callable | None = None, *, envs: Sequence[Any] | None = None, **options: Any
) -> Any:
    """Create a ``tf.function`` that checks environments when it returns.

    A program that is aborted half-way leaves its variables half-written, so
    environments only set a flag there, and this wrapper raises their ``EnvError`` (or
    ``Stopped``) once the program has returned. Ctrl-C ends environments of the native
    backend at once; ``KeyboardInterrupt`` follows. Environments of this process are
    stepped in the thread that created them, see ``call``.

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


def call(envs: Sequence[Any], program: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call a program that steps ``envs``, some of which may belong to this thread.

    Those are stepped in this thread, while the program runs in another one. A program
    that is no graph, or that a gradient tape of this thread records, runs in this one.
    """
    owner = owner_thread.current()
    owned = [env for env in envs if getattr(env, "owner", None) is owner]
    here = tf.config.functions_run_eagerly() or not tf.executing_eagerly()
    if not owned or here or record.could_possibly_record():
        return program(*args, **kwargs)
    scope = placement.current()  # device scopes are per thread

    def in_scope() -> Any:
        with scope:
            return program(*args, **kwargs)

    def interrupted() -> None:
        for env in owned:
            env.stop()

    return owner.run(in_scope, interrupted)


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
                envs = list(interrupts.ENVS) if self._envs is None else self._envs
                result = call(envs, self._compiled, *args, **kwargs)
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
        envs = list(interrupts.ENVS)
    for env in envs:
        check = getattr(env, "check", None)  # TensorBatch has none
        if check is not None:
            check()
