"""``make_env``: a batch of environments from a name, a callable or a list of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium

from tfagents_batch.envs import registry
from tfagents_batch.envs.adapters.adapt import is_environment
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.graph.vector_env import VectorEnv
from tfagents_batch.envs.shared import arguments
from tfagents_batch.envs.shared.validation import is_tensor_env
from tfagents_batch.envs.tf import names
from tfagents_batch.envs.tf.batch import TensorBatch
from tfagents_batch.envs.tf.environment import TensorEnv
from tfagents_batch.envs.vector import envpool
from tfagents_batch.envs.wrappers import named
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Env

_OF_BATCHES = ("autoreset_mode", "on_fault", "finite_check", "info_keys")
_WHOLE = "which is stepped as a whole in this process"


def make_env(
    env: str
    | Callable[..., gymnasium.Env]
    | gymnasium.Env
    | gymnasium.vector.VectorEnv
    | TensorEnv
    | Sequence[Any],
    num_envs: int | None = None,
    num_workers: int | None = None,
    *,
    env_kwargs: dict[str, Any] | None = None,
    wrappers: named.Wrappers = (),
    **options: Any,
) -> ProcessEnv | TensorBatch:
    """Make a batch of environments that is stepped inside the TensorFlow graph.

    >>> with make_env("CartPole-v1", num_envs=4, num_workers=2) as env:
    ...     state, timestep = env.init(seed=1)
    ...     timestep.observation.shape
    TensorShape([4, 4])

    Args:
      env: a name (see ``envs.registry``), a function that makes one environment, a
        list of names and functions, one for each environment, or, for a batch of one
        in this process, an environment: of Gymnasium, the legacy gym or dm_env.
        Batches that exist already are stepped in this process, by a ``VectorEnv``: a
        ``gymnasium.vector.VectorEnv`` object, such as ``gymnasium.make_vec`` returns
        (a function that makes one is for ``VectorEnv`` itself), and a name such as
        ``envpool:CartPole-v1``. Environments written in TensorFlow are part of the
        graph: a name such as ``tf/CartPole-v1``, or a ``TensorEnv``, its class or
        the class's name.
      num_envs: B; by default the length of the list, or of the batch, else 1.
      num_workers: processes; 0 steps in this process, None takes one per core, at
        most one per environment. Of EnvPool: threads, at least one.
      env_kwargs: arguments of every environment.
      wrappers: to be put around every environment where it lives, the innermost first:
        names, or ``{"name": ..., argument: value}``, see ``envs.wrappers.named``.
      **options: of ``ProcessEnv``, or of ``VectorEnv``.

    Raises:
      UserError: for a name or argument that cannot be used, before a worker starts.
      EnvError: if an environment cannot be made.
    """
    if isinstance(env, (list, tuple)):
        several = _several(env, num_envs, env_kwargs, wrappers)
        return ProcessEnv(several, num_workers, **options)
    if isinstance(env, gymnasium.vector.VectorEnv):
        kind, instead = type(env).__name__, "wrap the environments when it is made"
        named.refuse(wrappers, f"a {kind}, which is made already", instead)
        _check_size(f"a {kind} of {env.num_envs} environments", env.num_envs, num_envs)
        given = options | {"num_workers": num_workers, "env_kwargs": env_kwargs}
        _refuse_given(f"env is a {kind}, {_WHOLE}", given, *_OF_BATCHES)
        return VectorEnv(env, **options)
    num_envs = 1 if num_envs is None else arguments.batch_size(num_envs)
    if isinstance(env, str) and env.startswith(envpool.PREFIX):
        named.refuse(wrappers, f"{env}, which EnvPool steps", "leave them out")
        _refuse_given(f"{env} is made by EnvPool, {_WHOLE}", options, *_OF_BATCHES)
        made = envpool.EnvPoolBatch(env, num_envs, num_workers, env_kwargs)
        return VectorEnv(made, **{"info_keys": made.info_keys, **options})
    written = tensor_env(env, env_kwargs)
    if written is not None:
        name = registry.describe(env)
        named.refuse(wrappers, f"{name}, written in TensorFlow", "leave them out")
        # A fault cannot happen here, so whatever is to be done about one is fine.
        given = options | {"num_workers": num_workers}
        _refuse_given(f"{name} is stepped inside the graph", given, "on_fault")
        own = isinstance(env, str) and env.startswith(names.PREFIX)
        return TensorBatch(written, num_envs, check=not own)
    make = registry.constructor(env, env_kwargs)
    if is_environment(env):
        if num_envs > 1 or num_workers:
            raise UserError(
                f"env is one {registry.describe(env)}, made already, which cannot be "
                f"{num_envs} environments in {num_workers or 0} worker processes; pass "
                "what makes one: its id, its class, or a function that returns it"
            )
        num_workers = 0
        instance = f"one instance of {type(env).__name__}, which is made already"
        named.refuse(wrappers, instance, "wrap it before it is passed")
    make = named.wrapped(make, wrappers)
    return ProcessEnv([make] * num_envs, num_workers, **options)


def size(env: Any) -> int | None:
    """How many environments are given, where no other number of them can be made.

    Args:
      env: as ``make_env`` takes it, or an ``Env``.

    Returns:
      None for what makes as many as are asked for: a name, a function, what is written
      in TensorFlow.
    """
    if isinstance(env, (list, tuple)):
        return len(env)
    if isinstance(env, Env):
        return env.spec.num_envs
    if isinstance(env, gymnasium.vector.VectorEnv):
        return env.num_envs
    return 1 if is_environment(env) else None


def is_made(env: Any) -> bool:
    """Whether environments exist already, so that there cannot be others like them."""
    return size(env) is not None and not isinstance(env, (list, tuple))


def is_batch(env: Any) -> bool:
    """Whether a name means a batch that is stepped as a whole, without workers."""
    return isinstance(env, str) and env.startswith(tuple(registry.RESERVED))


def tensor_env(env: Any, env_kwargs: dict[str, Any] | None) -> TensorEnv | None:
    """The environment written in TensorFlow that is meant, if one is."""
    if isinstance(env, str) and env.startswith(names.PREFIX):
        return names.make(env, env_kwargs)
    meant = registry.attribute(env) if isinstance(env, str) else env
    kind = meant.func if isinstance(meant, functools.partial) else meant
    if not is_tensor_env(kind):
        return None
    name = registry.describe(env)
    if isinstance(kind, type):
        return names.construct(meant, env_kwargs, name)
    if env_kwargs:
        raise UserError(f"env_kwargs cannot be given to {name}, which is made already")
    return meant


def _refuse_given(what: str, options: dict[str, Any], *known: str) -> None:
    """Refuse what only environments in workers, one by one, understand."""
    given = sorted(name for name in set(options) - set(known) if options[name])
    if given:
        raise UserError(
            f"{what}; leave out {', '.join(given)}, or take environments in worker "
            "processes"
        )


def _check_size(what: str, size: int, num_envs: int | None) -> None:
    if num_envs not in (None, size):
        raise UserError(
            f"env is {what}, but num_envs is {num_envs}; leave num_envs out, or make "
            "them agree"
        )


def _several(
    envs: Sequence[Any],
    num_envs: int | None,
    env_kwargs: dict[str, Any] | None,
    wrappers: named.Wrappers,
) -> list[Callable[[], gymnasium.Env]]:
    _check_size(f"a list of {len(envs)}", len(envs), num_envs)
    if not envs:
        raise UserError("env is an empty list; expected at least one environment")
    for index, env in enumerate(envs):
        if tensor_env(env, env_kwargs) is not None:
            raise UserError(
                f"env[{index}] is {registry.describe(env)}, which is written in "
                "TensorFlow; a list is for environments in processes: pass one such "
                "environment, and num_envs"
            )
        if is_environment(env):
            raise UserError(
                f"env[{index}] is an instance of {type(env).__name__}; pass a function "
                "that makes it"
            )
    makes = [registry.constructor(env, env_kwargs) for env in envs]
    return [named.wrapped(make, wrappers) for make in makes]
