"""Configs by name: presets, run folders, and files of settings in JSON or YAML.

Code of the user (``module:Class``) that a file names is not imported: the user names it
again, as for a run folder.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tfagents_batch import config
from tfagents_batch.algorithms import REGISTRY
from tfagents_batch.configs import FILES, PRESETS, check_name
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.envs.registry import needs_user_code
from tfagents_batch.errors import UserError
from tfagents_batch.training import own_algorithm
from tfagents_batch.training.config import VARIABLES, RunConfig, with_options
from tfagents_batch.training.run_folder import config_file, files, runs

_YAML = FILES[1:]
# Values that settings have for rows of a timeline, and why. Steps are updates there, so
# an agent that is played must not take them for those of its exploration.
_OF_ROWS = {
    "n_step": (
        1,
        "rows of a timeline hold their rewards already; leave it out, and make the "
        "timeline with --n_step",
    ),
    "warmup_steps": (0, "nothing is collected from logged rows; leave it out"),
    "epsilon": (
        0.0,
        "an agent of logged rows does not explore; leave it out, and collect new rows "
        "with --epsilon of tfagents-batch collect",
    ),
}
# DQN for a log of any policy: it learns the values of that policy, which rows show, and
# takes the best actions by them. Settings that say otherwise leave the defaults.
_OF_THE_LOG = {
    "target": "sarsa",
    "loss": "squared",
    "learning_rate": "linear(3e-3, 0)",
}
_OTHERWISE = {"target", "cql_scale", "distribution"}
# YAML 1.2 says that 1e-3 is a number; PyYAML reads YAML 1.1, where it is text.
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


class Named(NamedTuple):
    """A config and where it is from."""

    config: RunConfig
    label: str  # short name for run folders
    # Names of the user's code that it needs, see ``config_file.from_text``
    user: dict[str, Any]


def refuse_presets(algorithm: Any) -> None:
    """Refuse the name of presets where an algorithm is expected, such as "rainbow"."""
    if not isinstance(algorithm, str) or algorithm in REGISTRY:
        return
    presets = [x for x in PRESETS if algorithm in (x, x.partition("/")[0])]
    if presets:
        flags = " or ".join(f"--config={name}" for name in presets)
        what = "a preset" if len(presets) == 1 else "presets"
        raise UserError(f"algorithm {algorithm!r} is the name of {what}; pass {flags}")


def find(name: str, algorithm: str | type | None = None) -> Named:
    """Return the config of a name.

    It is a preset; a run folder; a ``config.json``; or a ``.json``, ``.yaml`` or
    ``.yml`` file with arguments of ``train`` by name, such as ``{"algorithm": "dqn",
    "env": "CartPole-v1", "settings": {"learning_rate": 1e-3}}``. The user's own
    algorithm is passed again if the config is of one.

    Raises:
      UserError: for an unknown name, or a file that cannot be read.
    """
    check_name(name)
    if name in PRESETS:
        return Named(PRESETS[name](), name, {})
    path = Path(name).expanduser()
    if path.is_dir():
        run = runs.open_run(path)
        saved, user = config_file.from_text(run.config_text, algorithm)
        return Named(saved, saved.algorithm, user)
    data = _read(path)
    if "schema" in data:
        saved, user = config_file.from_text(json.dumps(data), algorithm)
        return Named(saved, saved.algorithm, user)
    return _of_arguments(path, data, algorithm)


def require(named: Named, options: Mapping[str, Any]) -> None:
    """Require what could run code and is in a config that is no preset."""
    if not named.user:
        return
    saved, env = named.config, options.get("env")
    config_file.require_wrappers(saved.wrappers, options.get("wrappers"))
    for name in ("env", "network", "source"):
        if named.user.get(name) and options.get(name) is None:
            flag = " (flag --env)" if name == "env" else ""
            raise UserError(
                f"the config has the {name} {named.user[name]!r}, which is your own "
                f"code and is only imported when you pass it again: pass {name}={flag}"
            )
    config_file.require_arguments(saved.recipe(env), options.get("env_kwargs"))
    config_file.require_address(saved, options)


def resolve(
    algorithm: str | type | None,
    env: Any,
    preset: str | RunConfig | None,
    settings: Any,
    options: dict[str, Any],
) -> RunConfig:
    """Return the RunConfig of a new run from arguments of ``train``; a pool is text."""
    if isinstance(preset, str):
        base = find(preset, algorithm).config
    else:
        base = preset or RunConfig()
    if algorithm is not None:
        refuse_presets(algorithm)
        algorithm = own_algorithm.name_of(algorithm)
    if algorithm is not None and algorithm != base.algorithm:
        if preset is not None:
            raise UserError(
                f"algorithm is {algorithm!r}, but the config is for "
                f"{base.algorithm!r}; pass only one of them"
            )
        kind = own_algorithm.entry(algorithm).config
        parts = {"settings": kind(), "source": None}
        base = dataclasses.replace(base, algorithm=algorithm, **parts)
    if isinstance(settings, dict):
        settings = config.replace(base.settings, settings)
    if settings is not None:
        options = options | {"settings": settings}
    if env is not None:
        recipe = EnvRecipe(env)
        options = recipe.options(options) | {"env": recipe.describe()}
    return with_options(base, options)


def offline_algorithm(algorithm: str | type | None, preset: Any) -> str | type:
    """Return the algorithm that learns from rows: that of a preset of rows, or DQN."""
    refuse_presets(algorithm)
    if preset is None:
        return algorithm or "dqn"
    base = find(preset, algorithm).config if isinstance(preset, str) else preset
    if base.source.kind != "rows":
        ours = ", ".join(x for x in PRESETS if x.startswith("rows/"))
        raise UserError(
            f"config is {preset}, but its settings are for experience that an "
            f"environment gives, not for logged rows; use one of {ours}, or pass an "
            "algorithm and its settings, such as --algorithm=dqn "
            "--algorithm.learning_rate=3e-3"
        )
    return algorithm or base.algorithm


def offline_settings(
    algorithm: str | type | None, settings: dict[str, Any] | None, preset: Any = None
) -> dict[str, Any]:
    """Return the settings of an algorithm that learns from rows of a timeline.

    Presets that are not of rows are refused, and settings that rows do not allow.
    """
    algorithm = offline_algorithm(algorithm, preset)
    settings = dict(settings or {})
    kind = own_algorithm.entry(own_algorithm.name_of(algorithm)).config
    for name, (value, reason) in _OF_ROWS.items():
        if not hasattr(kind, name):
            continue
        only = config.replace(kind(), {name: value})
        if config.replace(only, {name: settings.setdefault(name, value)}) != only:
            raise UserError(f"{name} is {settings[name]}, but {reason}")
    if learns_values_of_the_log(algorithm, settings, preset):
        settings = _OF_THE_LOG | settings
    return settings


def learns_values_of_the_log(
    algorithm: Any, settings: Mapping[str, Any] | None, preset: Any = None
) -> bool:
    """Return whether DQN learns the values of the policy that logged, by default."""
    chosen = _OTHERWISE.intersection(settings or ())
    return algorithm == "dqn" and preset is None and not chosen


def _of_arguments(path: Path, data: dict, algorithm: str | type | None) -> Named:
    """Return the config of a file that has arguments of ``train``."""
    data = dict(data)
    try:
        preset, name = data.pop("config", None), data.pop("algorithm", None)
        if preset is not None and preset not in [*PRESETS]:
            known = config.unknown("config", preset, PRESETS)
            raise UserError(f"{known} A file can name a preset only")
        base = PRESETS[preset]() if preset is not None else RunConfig()
        name = own_algorithm.name_of(algorithm) if algorithm is not None else name
        if name not in (None, base.algorithm):
            if preset is not None:
                raise UserError(
                    f"config {preset!r} is for {base.algorithm}, not for {name}; leave "
                    f"algorithm out, or choose a preset of {name}"
                )
            own_algorithm.entry(name)
            base = RunConfig(algorithm=name)
        settings = config.replace(base.settings, data.pop("settings", {}))
        resolved = with_options(base, data | {"settings": settings})
        if VARIABLES in resolved.env_options:  # they could run any program
            raise UserError(
                f"env_options has {VARIABLES}; a file cannot set them: pass "
                "env_options= (flag --env_options)"
            )
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    own = resolved.env if needs_user_code(resolved.env) else None
    user = dict.fromkeys(("env", "network", "eval_env", "source")) | {"env": own}
    return Named(resolved, path.stem, user)


def _read(path: Path) -> dict[str, Any]:
    """Read a file of settings."""
    try:
        text = files.read(path).decode()
        data = _yaml(text) if path.suffix in _YAML else json.loads(text)
    except OSError as error:
        raise UserError(
            f"config {os.fspath(path)} cannot be read: {error.strerror}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"config {path} cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise UserError(
            f"config {path} holds {type(data).__name__}; expected arguments of train "
            'by name, such as {"algorithm": "dqn", "env": "CartPole-v1"}'
        )
    return data


def _yaml(text: str) -> Any:
    try:
        from yaml import YAMLError, safe_load
    except ImportError:
        raise UserError("YAML needs PyYAML: pip install pyyaml, or use JSON") from None
    try:
        return _numbers(safe_load(text))
    except YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    if isinstance(value, str) and _EXPONENT.fullmatch(value):
        return float(value)
    return value
