"""Environment names: the values of ``--env`` and how workers create environments.

    CartPole-v1               id of Gymnasium's registry
    package.module:Id-v1      the module is imported first, and registers the id, which
                              may lack a version
    package.module:Class      a class or function; also ./file.py:Class
    ALE/Pong-v5               an Atari game, with the standard preprocessing
    gym:CartPole-v1           id of the legacy gym package; also gym:module:Id-v1
    envpool:Pong-v5           a batch of EnvPool, see ``envs.vector.envpool``
    tf/CartPole-v1            written in TensorFlow, see ``envs.tf.names``
    a callable                returns a gymnasium.Env, or an object ``adapt`` accepts

The prefixes ``tf/`` and ``envpool:`` are for batches, which ``make_env`` creates. Names
are checked here, in the learner, without creating an environment. Workers import this
file too, so it must not import TensorFlow.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from tfagents_batch.envs import packages
from tfagents_batch.envs.shared import user_code, validation
from tfagents_batch.envs.wrappers import atari, legacy_gym
from tfagents_batch.envs.wrappers.adapt import Reseeded, adapt, is_environment
from tfagents_batch.errors import UserError
from tfagents_batch.settings import suggest

RESERVED = {
    "tf/": "environments written in TensorFlow, which are batches: pass one such name, "
    "with num_envs, to make_env",
    "envpool:": "environments of EnvPool, which are batches: pass one such name, with "
    "num_envs, to make_env",
}
GYM = "gym:"
SEED_ARGUMENT = "seed_argument"  # key in env_kwargs, for callables and classes
SUPPORTED = (
    "a Gymnasium id such as CartPole-v1, module:Id-v1, package.module:Class, "
    "./file.py:Class, tf/Id-v1 (in the graph), gym:Id-v1 or a callable"
)
# Prefix of an entry point: module that it needs, command that installs it.
_NEEDS = {
    "gymnasium.envs.mujoco": ("mujoco", 'pip install "tfagents_batch[mujoco]"'),
    "gymnasium.envs.box2d": ("Box2D", 'pip install "tfagents_batch[box2d]"'),
    "gymnasium.envs.phys2d": ("jax", 'pip install "gymnasium[jax]"'),
    "gymnasium.envs.tabular": ("jax", 'pip install "gymnasium[jax]"'),
}
_ATARI = 'pip install "tfagents_batch[atari]"'


def constructor(
    env: str | Callable[..., gymnasium.Env] | gymnasium.Env,
    env_kwargs: dict[str, Any] | None = None,
) -> Callable[[], gymnasium.Env]:
    """Check a name and turn it into a function that creates one environment.

    Args:
      env: a name, a callable, or one instance, which the function then returns.
      env_kwargs: arguments of the environment. For a callable or class, the key
        "seed_argument" names the argument that takes the seed (see ``Reseeded``).

    Returns:
      A function without arguments that pickles to few bytes. Ids keep their
      time limit but not Gymnasium's checker: workers check every step themselves.

    Raises:
      UserError: if the name cannot be used; the error lists the valid forms.
    """
    kwargs = dict(env_kwargs or {})
    if isinstance(env, str):
        return _from_name(env, kwargs)
    if is_environment(env):
        if kwargs:
            raise UserError(
                f"env_kwargs cannot be given to an instance of {_name(type(env))}; "
                "pass its class"
            )
        adapted = adapt(env)
        return lambda: adapted
    if callable(env):
        return _with_arguments(env, env, kwargs)
    hint = ""
    if isinstance(env, gymnasium.vector.VectorEnv):
        hint = ", which is a batch; pass a function that creates one"
    elif hasattr(env, "step"):
        raise UserError(f"env is of type {_name(type(env))}{validation.fault_of(env)}")
    raise UserError(f"env is of type {_name(type(env))}{hint}; expected {SUPPORTED}")


def attribute(env: Any) -> Any:
    """Import the object that ``package.module:Class`` names; None for other names.

    Raises:
      UserError: if it cannot be imported.
    """
    if not isinstance(env, str) or env.startswith((GYM, *RESERVED)) or ":" not in env:
        return None
    module, target = user_code.split(env)
    if not module or not target or _registers(module, target, env):
        return None
    return user_code.import_attribute(env, module, target)


def find(id: str) -> EnvSpec | None:
    """Return the registry's spec of an id; ale_py registers its own only if needed."""
    if id not in gymnasium.registry and _installed("ale_py"):
        gymnasium.register_envs(importlib.import_module("ale_py"))
    return gymnasium.registry.get(id)


def describe(env: Any) -> str:
    """Return ``env`` as text for config.json; only a name can be created from it."""
    if isinstance(env, str):
        return env
    if isinstance(env, (list, tuple)):
        return ", ".join(dict.fromkeys(map(describe, env)))
    if isinstance(env, functools.partial):
        return describe(env.func)
    if is_environment(env):
        env = getattr(env, "unwrapped", env)
    return _name(env if hasattr(env, "__qualname__") else type(env))


def needs_user_code(env: Any) -> bool:
    """Return whether creating ``env`` imports or runs the user's own code.

    True for callables and objects, and for names that contain a module or a file.
    """
    if not isinstance(env, str):
        return True
    return ":" in env.removeprefix(GYM) and not env.startswith(tuple(RESERVED))


def may_run_text(env: Any, env_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return those arguments with text that the environment may execute or open.

    This package's environments, Gymnasium's own and Atari games run no text. Of theirs,
    only paths are returned, which name files that their C++ libraries would parse.
    """
    runs_no_text = isinstance(env, str) and env.startswith("tf/")
    if isinstance(env, str) and ":" not in env and not runs_no_text:
        point = str(getattr(find(env), "entry_point", None))
        runs_no_text = point.startswith(("gymnasium.envs.", "ale_py."))

    def has_text(name: str, value: Any) -> bool:
        if name in ("render_mode", SEED_ARGUMENT):  # their meaning is known
            return False
        if isinstance(value, Mapping):
            return any(has_text("", x) for pair in value.items() for x in pair)
        if isinstance(value, (list, tuple)):
            return any(has_text("", x) for x in value)
        if not isinstance(value, str):
            return False
        return not runs_no_text or value.startswith((".", "~")) or "/" in value

    return {name: x for name, x in env_kwargs.items() if has_text(name, x)}


# ---- functions that workers call


def make_registered(
    id: str, kwargs: dict[str, Any], module: str | None = None
) -> gymnasium.Env:
    """Create an environment by its id in the learner's registry, whose ids workers get.

    ``module`` is imported first. Gymnasium's checker is left out.
    """
    if module is not None:
        importlib.import_module(module)
    spec = gymnasium.registry[id]  # an id would be looked up with warnings of its age
    return gymnasium.make(spec, **{"disable_env_checker": True, **kwargs})


def make_class(module: str, name: str, /, **kwargs: Any) -> gymnasium.Env:
    """Create ``package.module:Class``, or ``/path/file.py:Class``."""
    return user_code.attribute(user_code.load(module), name)(**kwargs)


# ---- checks


def _from_name(name: str, kwargs: dict[str, Any]) -> Callable[[], gymnasium.Env]:
    for prefix, meaning in RESERVED.items():
        if name.startswith(prefix):
            raise UserError(
                f"environment {name!r}: the prefix {prefix!r} is reserved for "
                f"{meaning}; expected {SUPPORTED}"
            )
    if name.startswith(GYM):
        module, _, id = name.removeprefix(GYM).rpartition(":")
        if not id:
            raise UserError(f"environment {name!r} is incomplete; expected {SUPPORTED}")
        if module:
            legacy_gym.require_gym(name)
            user_code.import_module(module, name)
        legacy_gym.check(name, id)
        return functools.partial(legacy_gym.make, id, kwargs, module or None)
    module, colon, target = name.rpartition(":")
    if not colon:
        return _from_spec(name, _find_spec(name, name), kwargs)
    if not module or not target:
        raise UserError(f"environment {name!r} is incomplete; expected {SUPPORTED}")
    where, target = user_code.split(name)
    if where is None or _registers(where, target, name):
        user_code.import_module(module, name)
        return _from_spec(name, _find_spec(target, name), kwargs, module)
    function, module = user_code.import_attribute(name, where, target), where
    if not callable(function):
        raise UserError(
            f"environment {name!r}: {target} is of type {type(function).__name__}; "
            "expected a class or a function that returns a gymnasium.Env"
        )
    make = functools.partial(make_class, module, target)
    return _with_arguments(make, function, kwargs)


def _registers(module: str, target: str, name: str) -> bool:
    """Return whether ``target`` is an id without a version, not an attribute."""
    if module.endswith(".py"):
        return False
    has_it = hasattr(user_code.import_module(module, name), target.partition(".")[0])
    return target in gymnasium.registry and not has_it


def _from_spec(
    name: str, spec: EnvSpec, kwargs: dict[str, Any], module: str | None = None
) -> Callable[[], gymnasium.Env]:
    if not atari.is_ale(spec):
        return functools.partial(make_registered, spec.id, kwargs, module)
    atari.check(name, spec, kwargs)
    return functools.partial(atari.make, spec, kwargs)


def _with_arguments(
    make: Callable[..., Any], function: Any, kwargs: dict[str, Any]
) -> Callable[[], gymnasium.Env]:
    """Bind arguments of ``function`` to its constructor ``make``.

    ``seed_argument``, which is removed from them, names the one that takes the seed.
    """
    argument = kwargs.pop(SEED_ARGUMENT, None)
    make = functools.partial(make, **kwargs) if kwargs else make
    if argument is None:
        return make
    try:
        inspect.signature(function).bind_partial(**{argument: 0, **kwargs})
    except TypeError:
        raise UserError(
            f"env_kwargs[{SEED_ARGUMENT!r}] is {argument!r}; expected the name of the "
            f"argument of {describe(function)} that takes the seed"
        ) from None
    except ValueError:
        pass  # ``function`` has no signature
    return functools.partial(Reseeded, make, argument)


def _find_spec(id: str, name: str) -> EnvSpec:
    """Return the registry's spec of an id; refuse an id that cannot be created here."""
    spec = find(id)
    if spec is None:
        if id.startswith("ALE/") and not _installed("ale_py"):
            raise UserError(f"environment {name!r} needs ale_py: {_ATARI}")
        raise UserError(f"environment {name!r} does not exist; {_instead(id, name)}")
    if getattr(spec.entry_point, "__name__", "").startswith("_raise"):
        newest = suggest.newest_version(id, gymnasium.registry)
        hint = f"; use {newest!r}" if newest not in (None, id) else ""
        raise UserError(f"environment {name!r} is no longer part of Gymnasium{hint}")
    for start, (module, command) in _NEEDS.items():
        if str(spec.entry_point).startswith(start) and not _installed(module):
            raise UserError(f"environment {name!r} needs {module}: {command}")
    suggest.warn_of_age(name, id, gymnasium.registry)
    return spec


def _instead(id: str, name: str) -> str:
    """Return what to pass instead of an unknown id."""
    known = packages.registering(id)
    if known not in (None, name):
        module = known.rpartition(":")[0].removeprefix(GYM)
        return f"importing {module} registers this id: pass {known!r}"
    similar = suggest.similar_id(id, gymnasium.registry)
    if similar:
        return similar
    module = name.removesuffix(id).rstrip(":")
    if module:
        return f"importing {module} does not register it"
    if user_code.split(id)[0] is None:  # it ends in a version
        return (
            f"if a package registers it when it is imported, pass 'package:{id}'; "
            f"expected {SUPPORTED}"
        )
    return f"expected {SUPPORTED}"


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _name(thing: Any) -> str:
    """Return ``module:qualname`` of a class or function."""
    return f"{thing.__module__}:{thing.__qualname__}"
