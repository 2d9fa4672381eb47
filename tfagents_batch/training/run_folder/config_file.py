"""config.json of a run: its config, and the names of the user's code that it needs.

Also the settings of a run by the names of their flags, such as ``algorithm.epochs``.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tfagents_batch import config, sources
from tfagents_batch.envs import registry
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.envs.registry import describe, needs_user_code
from tfagents_batch.envs.wrappers import named
from tfagents_batch.errors import UserError
from tfagents_batch.settings import fields
from tfagents_batch.training import own_algorithm
from tfagents_batch.training.config import VARIABLES, RunConfig, without_variables

SCHEMA = 1
_PARTS = "settings", "source"  # their flags have another name in front

# Settings that do not affect what is learned: seed, logging, evaluation and hardware.
SAME_CURVE = frozenset(config.marked(RunConfig, "same_curve"))


def to_text(
    resolved: RunConfig,
    env: Any,
    network: Any,
    user: dict[str, Any] | None = None,
    eval_env: Any = None,
) -> str:
    """Return the text of config.json.

    Of worker variables only the names are written. ``user`` has the names of the user's
    code in an earlier text of the run, to be reused.
    """
    user = user or {
        "env": resolved.env if needs_user_code(env) else None,
        "network": describe(network) if network is not None else None,
        "eval_env": describe(eval_env) if eval_env is not None else None,
        "source": _own_source(resolved),
    }
    user = user | {VARIABLES: sorted(resolved.env_options.get(VARIABLES) or {})}
    raw = plain(without_variables(resolved))
    data = {"schema": SCHEMA, "config": raw, "user_code": user}
    if not _own_source(resolved):
        data["source"] = resolved.source.name
    return json.dumps(data, indent=2) + "\n"


def from_text(
    text: str, own: str | type | None = None
) -> tuple[RunConfig, dict[str, Any]]:
    """Read a config and the names of the user's code that it needs.

    ``own`` is the algorithm, if it is the user's own, which is not imported from a
    folder. The values of worker variables that an older version wrote are ignored:
    values from a folder could run any program.

    Returns:
      The checked config, and the names of the user's own ``env``, ``network``,
      ``eval_env`` and ``source`` (None if not the user's) and of the
      ``worker_variables``. Instead of the user's source, it has the default one.

    Raises:
      UserError: if ``to_text`` cannot have written the text.
    """
    try:
        data = json.loads(text)
        schema, raw, user = data["schema"], dict(data["config"]), data["user_code"]
        algorithm, source = raw["algorithm"], data.get("source")
        names = "env", "network", "eval_env", "source"
        user = {name: user.get(name) for name in names} | {
            VARIABLES: [str(name) for name in user.get(VARIABLES, ())]
        }
    except (
        *(ValueError, KeyError, TypeError, AttributeError),
        RecursionError,  # lists inside of lists inside of ...
    ) as error:
        raise UserError(
            f"config.json of the run cannot be read ({type(error).__name__}: {error}); "
            "expected the file that training writes"
        ) from error
    if schema != SCHEMA:
        raise UserError(
            f"config.json has schema {schema!r}; this version reads {SCHEMA}: upgrade "
            "tfagents_batch"
        )
    algorithm = raw["algorithm"] = _algorithm(algorithm, own)
    if source is not None and source not in sources.REGISTRY:
        raise UserError(config.unknown("source", source, sources.REGISTRY))
    try:
        saved = RunConfig(algorithm=algorithm)
        if source is not None:
            saved = dataclasses.replace(saved, source=sources.REGISTRY[source]())
        parts = {
            name: config.from_dict(type(getattr(saved, name)), raw.pop(name, {}))
            for name in ("settings", "source")
        }
        saved = dataclasses.replace(config.from_dict(RunConfig, raw), **parts)
        (saved.check_agent if user["source"] else saved.check)()
    except UserError as error:
        raise UserError(f"config.json of the run: {error}") from error
    user[VARIABLES] += saved.env_options.get(VARIABLES) or ()
    if needs_user_code(saved.env):  # regardless of what the file says
        user["env"] = saved.env
    return without_variables(saved), user


def _algorithm(saved: Any, own: str | type | None) -> str:
    """Return the name of a run's algorithm, or of the user's own in its place."""
    if own is None:
        own_algorithm.entry(saved)  # raises an error for one that is not known
        return saved
    name = own_algorithm.name_of(own)
    if name != saved and not (":" in name and ":" in saved):  # another path to it
        raise UserError(
            f"algorithm is {name!r}, but the run was trained by {saved!r}; leave it out"
        )
    return name


def require(user: dict[str, Any], env: Any, network: Any) -> None:
    """Require the user's code; the folder stores only its name."""
    if user["env"] and env is None:
        raise UserError(
            f"the run was trained on {user['env']!r}, which is your own code and is "
            "only imported when you pass it again: pass env (flag --env)"
        )
    if user["network"] and network is None:
        raise UserError(
            f"the run was trained with the network {user['network']!r}; pass it again "
            "as network="
        )


def require_wrappers(saved: Sequence[Any], wrappers: Any) -> None:
    """Require wrappers of modules again; the folder stores only their names."""
    own = named.of_modules(saved)
    if own and wrappers is None:
        raise UserError(
            f"the run has the wrapper {own[0]!r}, whose module is only imported when "
            f"you pass it again: pass wrappers (flag --wrappers="
            f"{shlex.quote(json.dumps(list(saved)))})"
        )


def require_arguments(recipe: EnvRecipe, env_kwargs: Any) -> None:
    """Require arguments with text again if the environment might execute the text."""
    texts = registry.may_run_text(recipe.env, recipe.env_kwargs)
    if texts and env_kwargs is None:
        again = json.dumps(dict(recipe.env_kwargs))
        raise UserError(
            f"env_kwargs of the saved settings have {json.dumps(texts)}, and "
            f"{recipe.describe()!r} might execute such text or open such a file; pass "
            f"all arguments again: env_kwargs (flag --env_kwargs={shlex.quote(again)})"
        )


def require_address(saved: RunConfig, options: Mapping[str, Any]) -> None:
    """Require the address of a cluster again: it sends pickles, which run code."""
    texts = {k: v for k, v in saved.pool_options.items() if isinstance(v, str)}
    texts.pop("scheduling", None)
    used = options.get("pool") or saved.pool
    if options.get("pool_options") is not None or not isinstance(used, str):
        return
    if texts and used != "none":
        again = json.dumps(saved.pool_options)
        raise UserError(
            f"pool_options of the saved settings have {json.dumps(texts)}, which is "
            "only connected to when you pass it again: pass pool_options (flag "
            f"--pool_options={shlex.quote(again)}), or pool='none' to collect here"
        )


def require_source(user: dict[str, Any], source: Any) -> None:
    """Require the user's source of experience, without which training cannot go on."""
    if user["source"] and source is None:
        raise UserError(
            f"the run was trained from {user['source']!r}, which is your own code; "
            "pass it again as source="
        )


def require_variables(user: dict[str, Any], saved: RunConfig) -> None:
    """Require the environment variables that the workers of the run had."""
    if user[VARIABLES]:
        example = saved.env_options | {VARIABLES: dict.fromkeys(user[VARIABLES], "...")}
        raise UserError(
            f"workers of the run had the variables {', '.join(user[VARIABLES])}, which "
            f"are not saved; pass env_options={json.dumps(example)}, or pass "
            "env_options without them to continue without them"
        )


def require_evaluation(user: dict[str, Any], eval_env: Any) -> None:
    """Require the eval_env of the run, so that its evaluations do not change."""
    if user.get("eval_env") and eval_env is None:
        raise UserError(
            f"the run was evaluated on {user['eval_env']!r}; pass it again as "
            "eval_env=, or pass eval_every=0"
        )


def plain(resolved: RunConfig) -> dict[str, Any]:
    """Return a config as JSON data, without the settings of a user's source."""
    if _own_source(resolved):
        resolved = dataclasses.replace(resolved, source=None)  # the default one
    return config.to_dict(resolved)


def _own_source(resolved: RunConfig) -> str | None:
    """Return the class of a source that is the user's code; None for the others."""
    kind = type(resolved.source)
    return None if kind in sources.REGISTRY.values() else describe(kind)


class Setting(NamedTuple):
    """Value of a setting, and the default of its algorithm, as JSON data."""

    value: Any
    default: Any

    @property
    def is_changed(self) -> bool:
        """Whether the value is not the default."""
        return self.value != self.default


def by_flag(data: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return settings, as in config.json, by the names of their flags."""
    settings, of_source = (data.get(name) or {} for name in _PARTS)
    return (
        {name: value for name, value in data.items() if name not in _PARTS}
        | config.flat(settings, "algorithm.")
        | config.flat(of_source, f"{source}.")
    )


def with_defaults(config: RunConfig) -> dict[str, Setting]:
    """Return all settings of a run by the names of their flags, with the defaults.

    Settings of a source that is the user's own code are left out.
    """
    usual, name = RunConfig(algorithm=config.algorithm), config.source.name
    is_own = type(config.source) not in sources.REGISTRY.values()
    if not is_own and type(config.source) is not type(usual.source):
        usual = dataclasses.replace(usual, source=type(config.source)())
    if type(config.source) is sources.ReplaySettings:  # its default is the run's
        config, usual = (
            dataclasses.replace(x, source=x.source.resolved(config))
            for x in (config, usual)
        )

    def values(run: RunConfig) -> dict[str, Any]:
        data = plain(without_variables(run))
        return by_flag(data | {"source": {}} if is_own else data, name)

    defaults = values(usual)
    return {
        key: Setting(value, defaults.get(key)) for key, value in values(config).items()
    }


def as_flag(name: str, value: Any) -> str:
    """Return a setting as it is written on a command line."""
    return f"--{name}={as_text(name, value)}"


def as_text(name: str, value: Any) -> str:
    """Return the value of a flag as text."""
    if isinstance(value, list) and "." in name:  # a tuple, which JSON does not have
        value = tuple(value)
    return fields.to_text(value)
