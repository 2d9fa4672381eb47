"""Programs kept as text, so that the next start need not trace them.

A program is found by everything that it is made of: this package's source, the versions
of what it is built on, the run's config and the spaces of its environments. None of
that is known where others' code runs in the process, which may have changed any part
of it, so programs are kept only by scripts of this package that run nobody else's.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import pathlib
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium
import keras
import numpy as np
import tensorflow as tf

from tfagents_batch import config as configs
from tfagents_batch import importing, schedules, spaces
from tfagents_batch.envs import registry
from tfagents_batch.interfaces import Env, Metrics
from tfagents_batch.training.compilation import stablehlo
from tfagents_batch.training.compilation.stablehlo import Exported
from tfagents_batch.training.runtime import compile_cache

_PACKAGES = (tf, keras, np, gymnasium)
_KERAS = ("floatx", "epsilon", "image_data_format")  # of keras.json
_LOG = logging.getLogger("tfagents_batch")
_allowed = False


@contextlib.contextmanager
def allowed() -> Iterator[None]:
    """Within: nobody's code runs in this process but that of installed packages."""
    global _allowed
    before, _allowed = _allowed, True
    try:
        yield
    finally:
        _allowed = before


def keeper(config: Any, env: Env) -> Callable[..., Any]:
    """Return what keeps the program of a run for later starts, if it can be kept.

    Args:
      config: of the run, a dataclass.
      env: that its program steps.

    Returns:
      A function of a compiled program, of all variables that it works on, by name, and
      of the environments that it steps. It returns what is to run instead.
    """
    entry = name(config, env)
    if not entry:
        return lambda program, variables, envs: program
    return lambda program, variables, envs: Kept(program, variables, envs, entry)


def name(config: Any, env: Env) -> str:
    """Where the program of a run is kept; empty if it cannot be.

    Args:
      config: of the run, a dataclass.
      env: that its program steps.
    """
    if not _allowed or registry.needs_user_code(config.env):
        return ""
    spec = env.spec
    try:
        source = _source()
        settings = configs.to_dict(config)
        # Its steps are in its schedules, which are among what is learned.
        elsewhere = {*configs.marked(type(config), "same_program"), "settings"}
        learned = configs.to_dict(schedules.resolve(config.settings, config.steps))
        parts = {
            "source": source,
            "versions": [
                platform.python_version(),
                *(x.__version__ for x in _PACKAGES),
            ],
            "keras": [getattr(keras.config, each)() for each in _KERAS],
            "settings": learned,
            "config": {k: v for k, v in settings.items() if k not in elsewhere},
            "observation_space": spaces.to_json(spec.observation_space),
            "action_space": spaces.to_json(spec.action_space),
            "spec": [spec.num_envs, spec.info, spec.max_episode_steps],
            "hub": getattr(env, "hub", None),
        }
        text = json.dumps(parts, sort_keys=True)
    except (OSError, TypeError, ValueError, _Changed) as error:
        _LOG.debug("the program is not kept: %s", error)
        return ""
    return f"program-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


class Kept:
    """A compiled program that is taken from the store, or goes there.

    Args:
      traced: the program as ``tf.function``, not traced yet.
      variables: all that it works on, by name.
      envs: that it steps.
      name: of its entry in the store.

    What runs is always the text, if there can be one, in the first start as well: so
    all starts compute the same.
    """

    def __init__(
        self, traced: Any, variables: Mapping[str, Any], envs: Sequence[Any], name: str
    ):
        self._traced = traced
        self._variables = variables
        self._envs = envs
        self._name = name
        self._program: Any = None
        self._origin = {"program": "traced"}

    def __call__(self, seed: tf.Tensor) -> Metrics:
        if self._program is None:
            return self._first(seed)
        return self._program(seed)

    def experimental_get_tracing_count(self) -> int:
        """Of the program that runs."""
        program = self._program or self._traced
        return program.experimental_get_tracing_count()

    def origin(self) -> dict[str, str]:
        """For the run's log: ``program``, "kept" or "traced"; ``not_kept``, why not."""
        return self._origin

    def _first(self, seed: tf.Tensor) -> Metrics:
        """Run what is kept; else keep it, if it is suited; else what was traced."""
        kept = compile_cache.read(self._name)
        for data in (None,) if kept is None else (kept, None):
            try:
                if data is not None:
                    text = Exported.from_bytes(data)
                else:
                    text = stablehlo.export(self._traced, self._variables)
                program = stablehlo.program(text, self._variables, self._envs)
                metrics = program(seed)
            except stablehlo.Unsuited as reason:
                self._origin["not_kept"] = str(reason)
                continue
            except tf.errors.OpError as error:
                if not stablehlo.is_unread(error):
                    raise
                self._origin["not_kept"] = "XLA does not read its text"
                _LOG.debug("a program's text is not read: %s", error)
                continue
            self._program = program
            self._origin = {"program": "traced" if data is None else "kept"}
            if data is None:
                compile_cache.write(self._name, text.to_bytes())
            return metrics
        self._program = self._traced
        return self._traced(seed)


class _Changed(Exception):
    """Source may not be what was imported."""


@functools.cache
def _source() -> str:
    """Hash of this package's files.

    Raises:
      _Changed: if one was written since this process has begun.
    """
    root = pathlib.Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if not path.is_file():  # what editors leave
            continue
        if path.stat().st_mtime > importing.STARTED - 1:
            raise _Changed(f"{path.name} has just changed")
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
