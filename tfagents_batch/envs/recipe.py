"""Recipe of environments: the user's ``env``, its arguments and wrappers.

Everything else gets an ``EnvRecipe``, and never asks what the user's object is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import cloudpickle
import gymnasium

from tfagents_batch.envs import make, registry
from tfagents_batch.envs.wrappers import atari, named
from tfagents_batch.envs.wrappers.adapt import adapt, is_environment
from tfagents_batch.errors import EnvError, UserError
from tfagents_batch.interfaces import Env


@dataclasses.dataclass(frozen=True)
class EnvRecipe:
    """A user's environment: a name, a function, a list of these, or an instance.

    It can be pickled if the environment does not exist yet; functions and classes are
    pickled by cloudpickle.

    Attributes:
      env: argument ``env`` of ``make_env``, or an ``Env``. Empty text for a run without
        an environment.
      env_kwargs: arguments of every environment.
      wrappers: wrappers of every environment, innermost first.
    """

    env: Any
    env_kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    wrappers: Sequence[Any] = ()

    @property
    def size(self) -> int | None:
        """Number of environments if it is fixed: of a list, a batch or an instance."""
        env = self.env
        if isinstance(env, (list, tuple)):
            return len(env)
        if isinstance(env, Env):
            return env.spec.num_envs
        if isinstance(env, gymnasium.vector.VectorEnv):
            return env.num_envs
        return 1 if is_environment(env) else None

    @property
    def exists(self) -> bool:
        """Whether it is an existing object, so that no second one can be created."""
        return self.size is not None and not isinstance(self.env, (list, tuple))

    @property
    def in_graph(self) -> bool:
        """Whether it is written in TensorFlow."""
        return make.tensor_env(self.env, self._kwargs) is not None

    @property
    def creates(self) -> bool:
        """Whether ``make`` creates environments, which its caller has to close."""
        return not isinstance(self.env, Env)

    @property
    def has_workers(self) -> bool:
        """Whether environments are created one by one, as workers require."""
        if isinstance(self.env, str) and self.env.startswith(tuple(registry.RESERVED)):
            return False  # a name that means a batch
        return bool(self.env) and not self.exists and not self.in_graph

    @property
    def needs_user_code(self) -> bool:
        """Whether creating it imports or runs the user's own code."""
        own = named.of_modules(self.wrappers)
        return bool(own) or registry.needs_user_code(self.env)

    def describe(self) -> str:
        """Return it as text for config.json; only a name can be created from it."""
        return registry.describe(self.env)

    def same_as(self, before: str) -> bool:
        """Return whether it is the environment that had this name before."""
        return isinstance(self.env, str) and _is_same(self.env, before)

    def options(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings of a run with its own ``num_envs``, if it fixes the number.

        A setting that cannot be chosen for such environments is a UserError.
        """
        size = self.size
        if size is None:
            return dict(settings)
        fixed = ("num_envs",)
        if self.exists:
            fixed += ("num_workers", "envs_per_worker")
            fixed += ("env_kwargs", "env_options", "wrappers")
        for name in fixed:
            if name in settings and (name != "num_envs" or settings[name] != size):
                raise UserError(
                    f"{name} cannot be chosen: env is a {type(self.env).__name__} with "
                    f"{size} environments; leave it out"
                )
        return dict(settings) | {"num_envs": size}

    def whole_games(self) -> Self:
        """Return the recipe whose episodes are whole games, as for evaluations.

        A lost life of an Atari game may end an episode of training, but a score is that
        of a whole game. Arguments of functions, and wrappers, are not changed.
        """
        env, kwargs, ends = self.env, self._kwargs, None
        if isinstance(env, str) and env.startswith("envpool:"):
            ends = "episodic_life"
        elif isinstance(env, str) and kwargs:
            spec = registry.find(env)
            ends = "terminal_on_life_loss" if spec and atari.is_ale(spec) else None
        kwargs = {key: value for key, value in kwargs.items() if key != ends}
        return dataclasses.replace(self, env_kwargs=kwargs)

    def other(self, env: Any, own: bool) -> EnvRecipe:
        """Return the recipe of another ``env``, with what applies to it.

        The arguments and wrappers apply to a name if it is the same one. With ``own``
        they apply to others too.
        """
        if isinstance(env, str):
            own = _is_same(env, self.describe())
        exists = EnvRecipe(env).exists
        kwargs = self.env_kwargs if own and not exists else {}
        wrappers = () if exists and not own else self.wrappers
        return EnvRecipe(env, kwargs, wrappers)

    def part(self, start: int, count: int) -> Self:
        """Return the recipe of a part of its environments, if it is a list."""
        if not isinstance(self.env, (list, tuple)):
            return self
        return dataclasses.replace(self, env=self.env[start : start + count])

    def first(self) -> Self:
        """Return the recipe of one environment, the first one of a list."""
        if not isinstance(self.env, (list, tuple)):
            return self
        return dataclasses.replace(self, env=self.env[0])

    def has_argument(self, name: str) -> bool:
        """Return whether its function or class has an argument of this name.

        Every environment that is registered with Gymnasium has ``render_mode``.
        """
        env = registry.attribute(self.env) if isinstance(self.env, str) else self.env
        if env is None:
            return name == "render_mode"
        try:
            return name in inspect.signature(env).parameters
        except (TypeError, ValueError):
            return False

    def without_close(self) -> Self:
        """Return it so that closing environments does not close an instance."""
        env = self.env
        if isinstance(env, gymnasium.vector.VectorEnv):
            return dataclasses.replace(self, env=_VectorWithoutClose(env))
        if is_environment(env):
            return dataclasses.replace(self, env=_WithoutClose(adapt(env)))
        return self

    def for_evaluation(self, episodes: int, most: int) -> tuple[int, int]:
        """Return the number of environments and of episodes for an evaluation.

        The number of environments, at most ``most``, divides the number of episodes. If
        it is fixed, the episodes are rounded up to a multiple.
        """
        env, size = self.env, self.size
        same_everywhere = isinstance(env, (list, tuple)) and all(
            x == env[0] for x in env
        )
        if size is None or same_everywhere:  # fewer environments are enough
            most = min(most, size or most)
            return max(n for n in range(1, most + 1) if not episodes % n), episodes
        return size, math.ceil(episodes / max(size, 1)) * size

    def make(
        self, num_envs: int, *, log_info: Sequence[str] = (), **options: Any
    ) -> Env:
        """Create a batch of environments, or return the ``Env`` that exists.

        Args:
          num_envs: number of environments; of a list, the first ones are used.
          log_info: keys of infos that become columns.
          **options: further arguments of ``make_env``.
        """
        if isinstance(self.env, str) and not self.env:
            raise UserError(
                "no environment is given; pass --env=<name> or a --config preset"
            )
        if isinstance(self.env, Env):
            return self._existing(log_info)
        if log_info:
            if self.in_graph:
                raise UserError(
                    f"log_info is {list(log_info)}, but {self.describe()} is written "
                    "in TensorFlow and has no infos; leave log_info out"
                )
            options["info_keys"] = dict.fromkeys(log_info, "float32")
        env = self.part(0, num_envs).env
        arguments = {"env_kwargs": self._kwargs, "wrappers": self.wrappers}
        try:
            return make.make_env(env, num_envs, **arguments, **options)
        except EnvError as error:
            raise self._to_user_error(error) from error

    @contextlib.contextmanager
    def closing_on_error(self, env: Env) -> Iterator[None]:
        """Close environments that ``make`` created if an exception is raised inside."""
        try:
            yield
        except BaseException:
            if self.creates:
                env.close()
            raise

    def constructor(self, **env_kwargs: Any) -> Callable[[], gymnasium.Env]:
        """Return a function that creates one environment with its wrappers.

        ``env_kwargs`` are added to its own or replace them. It is a UserError if the
        environment is written in TensorFlow, or exists already.
        """
        if self.in_graph:
            raise UserError(
                f"{self.describe()} is a batch written in TensorFlow; pass it to "
                "tfagents_batch.make_env, or use tfagents_batch.evaluate"
            )
        if self.exists:
            raise UserError(
                f"env is an instance of {type(self.env).__name__}; use that instance"
            )
        kwargs = self._kwargs | env_kwargs
        create = named.wrapped(registry.constructor(self.env, kwargs), self.wrappers)
        return lambda: adapt(create())

    @property
    def _kwargs(self) -> dict[str, Any]:
        return dict(self.env_kwargs)

    def _to_user_error(self, error: EnvError) -> Exception:
        """Turn a constructor's TypeError into a UserError; return other errors as is.

        The TypeErrors are those of wrong or missing arguments.
        """
        cause = error.__cause__
        kind = getattr(cause, "type_name", type(cause).__name__)
        text = str(getattr(cause, "text", cause))
        if error.phase != "construct" or kind != "TypeError":
            return error
        if self._kwargs:
            return UserError(f"env_kwargs {self._kwargs} do not fit: {text}")
        if "missing" in text and "required" in text:
            return UserError(
                f"environment {self.describe()!r} needs arguments: {text}; pass them "
                "as env_kwargs, or, if JSON has no such values, pass a function that "
                "creates the environment (./file.py:function)"
            )
        return error

    def _existing(self, log_info: Sequence[str]) -> Env:
        kind = type(self.env).__name__
        named.refuse(
            self.wrappers,
            f"an Env object, a {kind}",
            "leave them out (wrappers=[]), or pass them to make_env",
        )
        for name in log_info:
            if name not in self.env.spec.info:
                raise UserError(
                    f"log_info has {name!r}, but the {kind} that was passed has no "
                    "such info column; add it to its info_keys"
                )
        return self.env

    def __getstate__(self) -> bytes:
        if self.exists:
            raise UserError(
                f"env is an instance of {type(self.env).__name__}, which cannot be "
                "sent to another process; pass a function that creates it"
            )
        return cloudpickle.dumps((self.env, self._kwargs, tuple(self.wrappers)))

    def __setstate__(self, state: bytes) -> None:
        fields = zip(dataclasses.fields(self), cloudpickle.loads(state), strict=True)
        for field, value in fields:
            object.__setattr__(self, field.name, value)


class _WithoutClose(gymnasium.Wrapper):
    def close(self) -> None:
        pass


class _VectorWithoutClose(gymnasium.vector.VectorWrapper):
    def close(self, **_) -> None:
        pass


def _is_same(name: str, before: str) -> bool:
    """Return whether two names mean the same environment, even in a file that moved."""
    (file, target), (old, old_target) = _file(name), _file(before)
    if name == before or target != old_target or file is None or old is None:
        return name == before
    if old.exists():
        return file.absolute().resolve() == old.absolute().resolve()
    return file.name == old.name


def _file(name: str) -> tuple[Path | None, str]:
    """Return file and attribute of ``./file.py:Class``."""
    module, _, target = name.rpartition(":")
    return Path(module).expanduser() if module.endswith(".py") else None, target
