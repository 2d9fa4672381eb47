"""``make_env``: create a batch of environments from a name, a callable or a list."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, overload

import gymnasium

from tfagents_batch.envs import default_workers, registry
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.graph.vector_env import VectorEnv
from tfagents_batch.envs.shared import arguments
from tfagents_batch.envs.shared.validation import is_tensor_env
from tfagents_batch.envs.tf import names
from tfagents_batch.envs.tf.batch import TensorBatch
from tfagents_batch.envs.tf.environment import TensorEnv
from tfagents_batch.envs.vector import envpool
from tfagents_batch.envs.wrappers import named
from tfagents_batch.envs.wrappers.adapt import is_environment
from tfagents_batch.errors import UserError

_BATCH_OPTIONS = ("on_fault", "finite_check", "info_keys")
_LOCAL = "which is stepped as a whole in this process"


# A TensorEnv may also be callable.
@overload
def make_env(  # pyright: ignore[reportOverlappingOverload]
    env: TensorEnv | type[TensorEnv],
    num_envs: int | None = None,
    num_workers: int | None = None,
    *,
    env_kwargs: dict[str, Any] | None = None,
    wrappers: named.Wrappers = (),
    **options: Any,
) -> TensorBatch: ...


# A name such as tf/CartPole-v1 returns a TensorBatch, which differs only in ``send``.
@overload
def make_env(
    env: str | Callable[..., Any] | gymnasium.Env | Sequence[Any] | Any,
    num_envs: int | None = None,
    num_workers: int | None = None,
    *,
    env_kwargs: dict[str, Any] | None = None,
    wrappers: named.Wrappers = (),
    **options: Any,
) -> ProcessEnv: ...


def make_env(
    env: Any,
    num_envs: int | None = None,
    num_workers: int | None = None,
    *,
    env_kwargs: dict[str, Any] | None = None,
    wrappers: named.Wrappers = (),
    **options: Any,
) -> ProcessEnv | TensorBatch:
    """Create a batch of environments that is stepped inside the TensorFlow graph.

    >>> with make_env("CartPole-v1", num_envs=4, num_workers=2) as env:
    ...     state, timestep = env.init(seed=1)
    ...     timestep.observation.shape
    TensorShape([4, 4])

    Args:
      env: a name (see ``envs.registry``), a function that creates one environment, or
        a list with one name or function per environment. An environment object of
        Gymnasium, the legacy gym or dm_env is a batch of one in this process.
        Vector environments are stepped in this process, by a ``VectorEnv``: a
        ``gymnasium.vector.VectorEnv`` object, such as ``gymnasium.make_vec`` returns,
        or a name such as ``envpool:CartPole-v1``. Environments written in TensorFlow
        are part of the graph: a name such as ``tf/CartPole-v1``, or a ``TensorEnv``,
        its class or the class's name.
      num_envs: B; by default the length of the list or the size of the batch, else 1.
      num_workers: number of processes; 0 steps in this process. None uses one per core,
        but at most one per environment, or a single one where that is faster, see
        ``default_workers``. For EnvPool: number of threads, from 1.
      env_kwargs: arguments of every environment.
      wrappers: wrappers of every environment, applied in its worker, innermost first:
        names, or ``{"name": ..., argument: value}``, see ``envs.wrappers.named``.
      **options: options of ``ProcessEnv`` or of ``VectorEnv``.

    Raises:
      UserError: for an unusable name or argument, before a worker starts.
      EnvError: if an environment cannot be created.
    """
    if isinstance(env, (list, tuple)):
        makes = _constructors(env, num_envs, env_kwargs, wrappers)
        return ProcessEnv(makes, num_workers, **options)
    if isinstance(env, gymnasium.vector.VectorEnv):
        kind, instead = type(env).__name__, "wrap its environments before you create it"
        named.refuse(wrappers, f"an existing {kind}", instead)
        _check_size(f"a {kind} of {env.num_envs} environments", env.num_envs, num_envs)
        passed = options | {"num_workers": num_workers, "env_kwargs": env_kwargs}
        _refuse_extra(f"env is a {kind}, {_LOCAL}", passed, *_BATCH_OPTIONS)
        return VectorEnv(env, **options)
    num_envs = 1 if num_envs is None else arguments.batch_size(num_envs)
    if isinstance(env, str) and env.startswith(envpool.PREFIX):
        named.refuse(wrappers, f"{env}, which EnvPool steps", "leave them out")
        _refuse_extra(f"{env} is an EnvPool, {_LOCAL}", options, *_BATCH_OPTIONS)
        pool = envpool.EnvPoolBatch(env, num_envs, num_workers, env_kwargs)
        return VectorEnv(pool, **{"info_keys": pool.info_keys, **options})
    tensor = tensor_env(env, env_kwargs)
    if tensor is not None:
        name = registry.describe(env)
        named.refuse(wrappers, f"{name}, written in TensorFlow", "leave them out")
        # Any on_fault is accepted, because these environments cannot fail.
        passed = options | {"num_workers": num_workers}
        _refuse_extra(f"{name} is stepped inside the graph", passed, "on_fault")
        tested = isinstance(env, str) and env.startswith(names.PREFIX)
        return TensorBatch(tensor, num_envs, check=not tested)
    make = registry.constructor(env, env_kwargs)
    if is_environment(env):
        if num_envs > 1 or num_workers:
            raise UserError(
                f"env is one instance of {registry.describe(env)}, which cannot become "
                f"{num_envs} environments in {num_workers or 0} worker processes; pass "
                "its id, its class, or a function that returns a new one"
            )
        num_workers = 0
        instance = f"an existing instance of {type(env).__name__}"
        named.refuse(wrappers, instance, "wrap it before you pass it")
    make = named.wrapped(make, wrappers)
    if num_workers is None:
        groups = options.get("groups", 1)
        num_workers, options["workers_reason"] = default_workers.choose(
            env, make, num_envs, groups, env_kwargs
        )
    return ProcessEnv([make] * num_envs, num_workers, **options)


def tensor_env(env: Any, env_kwargs: dict[str, Any] | None) -> TensorEnv | None:
    """Return the environment written in TensorFlow that ``env`` means, else None."""
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
        raise UserError(f"env_kwargs cannot be given to {name}, which already exists")
    made: Any = meant  # an object with the methods of a ``TensorEnv``
    return made


def _refuse_extra(what: str, options: dict[str, Any], *known: str) -> None:
    """Refuse options that only environments in worker processes have."""
    extra = sorted(name for name in set(options) - set(known) if options[name])
    if extra:
        raise UserError(
            f"{what}; leave out {', '.join(extra)}, or use environments in worker "
            "processes"
        )


def _check_size(what: str, size: int, num_envs: int | None) -> None:
    if num_envs not in (None, size):
        raise UserError(
            f"env is {what}, but num_envs is {num_envs}; leave num_envs out, or pass "
            "the same number"
        )


def _constructors(
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
                "that creates it"
            )
    makes = [registry.constructor(env, env_kwargs) for env in envs]
    return [named.wrapped(make, wrappers) for make in makes]
