"""Programs stored as text, so that the next start does not trace them.

The key of a program covers everything it depends on: this package's source, the
versions of its dependencies, the run's config and the spaces of its environments. A
user's code in the process could change any of these without changing the key. So only
the scripts of this package store programs, and only if they run no user code.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import pathlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium
import keras
import numpy as np
import tensorflow as tf

from tfagents_batch import config as configs
from tfagents_batch import importing, spaces
from tfagents_batch.interfaces import Env
from tfagents_batch.metrics import Result
from tfagents_batch.training.compilation import compile_cache, stablehlo
from tfagents_batch.training.compilation.stablehlo import Exported
from tfagents_batch.types import EnvSpec

_PACKAGES = (tf, keras, np, gymnasium)
_KERAS = ("floatx", "epsilon", "image_data_format")  # settings in keras.json
_LOG = logging.getLogger("tfagents_batch")
_allowed = False


@contextlib.contextmanager
def allow_storing() -> Iterator[None]:
    """Allow storing programs: the process runs only code of installed packages."""
    global _allowed
    before, _allowed = _allowed, True
    try:
        yield
    finally:
        _allowed = before


class Saver:
    """Stores the program of a run for later starts, if it can be stored.

    One with code of the user is not stored.
    """

    def __init__(
        self, config: Any, spec: EnvSpec, envs: Sequence[Env], own_code: bool = False
    ):
        self._entry = "" if own_code else name(config, spec, envs)
        self._stored: StoredProgram | None = None

    def __call__(
        self, program: Any, variables: Mapping[str, Any], envs: Sequence[Any]
    ) -> Any:
        """Return the program to run instead of a compiled one, or the same one."""
        if not self._entry:
            return program
        self._stored = StoredProgram(program, variables, envs, self._entry)
        return self._stored

    def origin(self) -> dict[str, str]:
        """Return facts for the run's log, see ``StoredProgram``."""
        return {"program": "traced"} if self._stored is None else self._stored.origin


def name(config: Any, spec: EnvSpec, envs: Sequence[Env]) -> str:
    """Return the name of a run's entry in the store; empty if it cannot be stored."""
    if not _allowed or config.recipe().needs_user_code:
        return ""
    try:
        source = _source()
        # Numbers, also those of schedules, are inputs of the program.
        settings = configs.structure(config.resolved())
        skipped = configs.marked(type(config), "same_program")
        parts = {
            "source": source,
            "versions": [
                platform.python_version(),
                *(x.__version__ for x in _PACKAGES),
            ],
            "keras": [getattr(keras.config, option)() for option in _KERAS],
            "config": {k: v for k, v in settings.items() if k not in skipped},
            "observation_space": spaces.to_json(spec.observation_space),
            "action_space": spaces.to_json(spec.action_space),
            "spec": [spec.num_envs, spec.info, spec.max_episode_steps],
            "hub": [getattr(env, "hub", None) for env in envs],
        }
        text = json.dumps(parts, sort_keys=True)
    except (OSError, TypeError, ValueError, _Changed) as error:
        _LOG.debug("the program is not stored: %s", error)
        return ""
    return f"program-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


class StoredProgram:
    """A compiled program that is read from the store, or written to it.

    If the program can be exported, it always runs from its text, even in the first
    start. So all starts compute the same. ``traced`` is the program as ``tf.function``,
    not traced yet; ``name`` is that of its entry in the store. ``origin`` has facts for
    the run's log: ``program`` is "kept" if it was read from the store, else "traced";
    ``not_kept`` is the reason if it cannot be stored.
    """

    def __init__(
        self, traced: Any, variables: Mapping[str, Any], envs: Sequence[Any], name: str
    ):
        self._traced = traced
        self._variables = variables
        self._envs = envs
        self._name = name
        self._program: Any = None
        self.origin = {"program": "traced"}

    def __call__(self, *arguments: tf.Tensor) -> Result:
        if self._program is None:
            return self._first_call(*arguments)
        return self._program(*arguments)

    def experimental_get_tracing_count(self) -> int:
        """Return how often the running program was traced."""
        program = self._program or self._traced
        return program.experimental_get_tracing_count()

    def _first_call(self, *arguments: tf.Tensor) -> Result:
        """Run the stored text, or export, store and run it, or run the trace."""
        stored = compile_cache.read(self._name)
        for data in (None,) if stored is None else (stored, None):
            try:
                if data is not None:
                    text = Exported.from_bytes(data)
                else:
                    text = stablehlo.export(self._traced, arguments, self._variables)
                program = stablehlo.program(text, self._variables, self._envs)
                metrics = program(*arguments)
            except stablehlo.NotExportable as reason:
                self.origin["not_kept"] = str(reason)
                continue
            except tf.errors.OpError as error:
                if not stablehlo.cannot_read(error):
                    raise
                self.origin["not_kept"] = "XLA cannot read its text"
                _LOG.debug("XLA cannot read a program's text: %s", error)
                continue
            self._program = program
            self.origin = {"program": "traced" if data is None else "kept"}
            if data is None:
                compile_cache.write(self._name, text.to_bytes())
            return metrics
        self._program = self._traced
        return self._traced(*arguments)


class _Changed(Exception):
    """The source files may differ from the imported code."""


@functools.cache
def _source() -> str:
    """Return a hash of this package's files.

    Raises:
      _Changed: if a file was written after this process started.
    """
    root = pathlib.Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if not path.is_file():  # such as a lock file of an editor
            continue
        if path.stat().st_mtime > importing.STARTED - 1:
            raise _Changed(f"{path.name} has just changed")
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
