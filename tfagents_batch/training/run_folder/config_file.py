"""config.json of a run: its config, and the names of the user's code that it needs."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tfagents_batch import algorithms, config
from tfagents_batch.envs.registry import (
    SEED_ARGUMENT,
    describe,
    has_safe_arguments,
    needs_user_code,
)
from tfagents_batch.errors import UserError
from tfagents_batch.training.run_flags import VARIABLES, Config, without_variables

SCHEMA = 2  # 1 had settings of the source among those of the run


def to_text(
    resolved: Config,
    env: Any,
    network: Any,
    user: dict[str, Any] | None = None,
    eval_env: Any = None,
) -> str:
    """Return the text of config.json.

    Args:
      resolved: config of the run; for worker variables only the names are written.
      env, network, eval_env: arguments of the user.
      user: names of the user's code in an earlier text of the run, to be reused.
    """
    user = user or {
        "env": resolved.env if needs_user_code(env) else None,
        "network": describe(network) if network is not None else None,
        "eval_env": describe(eval_env) if eval_env is not None else None,
    }
    user = user | {VARIABLES: sorted(resolved.env_options.get(VARIABLES) or {})}
    raw = config.to_dict(without_variables(resolved))
    data = {"schema": SCHEMA, "config": raw, "user_code": user}
    return json.dumps(data, indent=2) + "\n"


def from_text(text: str) -> tuple[Config, dict[str, Any]]:
    """Read a config and the names of the user's code that it needs.

    The values of worker variables that an older version wrote are ignored: values
    from a folder could run any program.

    Returns:
      The checked config, and the names of the user's own ``env``, ``network`` and
      ``eval_env`` (None if not the user's) and of the ``worker_variables``.

    Raises:
      UserError: if ``to_text`` cannot have written the text.
    """
    try:
        data = json.loads(text)
        schema, raw, user = data["schema"], dict(data["config"]), data["user_code"]
        algorithm = raw["algorithm"]
        user = {name: user.get(name) for name in ("env", "network", "eval_env")} | {
            VARIABLES: [str(name) for name in user.get(VARIABLES, ())]
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"config.json of the run cannot be read ({type(error).__name__}: {error}); "
            "expected the file that training writes"
        ) from error
    if schema == 1:
        names = {"rollout_length": "length", "update_every": "episodes"}
        given = {new: raw.pop(old) for old, new in names.items() if old in raw}
        raw["source"] = given
    elif schema != SCHEMA:
        raise UserError(
            f"config.json has schema {schema!r}; this version reads {SCHEMA}: upgrade "
            "tfagents_batch"
        )
    if not isinstance(algorithm, str) or algorithm not in algorithms.REGISTRY:
        raise UserError(config.unknown("algorithm", algorithm, algorithms.REGISTRY))
    try:
        saved = Config(algorithm=algorithm)
        parts = {
            name: config.from_dict(type(getattr(saved, name)), raw.pop(name, {}))
            for name in ("settings", "source")
        }
        saved = dataclasses.replace(config.from_dict(Config, raw), **parts)
        saved.check()
    except UserError as error:
        raise UserError(f"config.json of the run: {error}") from error
    user[VARIABLES] += saved.env_options.get(VARIABLES) or ()
    if needs_user_code(saved.env):  # regardless of what the file says
        user["env"] = saved.env
    return without_variables(saved), user


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


def require_arguments(saved: Config) -> None:
    """Refuse text in saved arguments of an environment that might execute it."""
    texts = {k: v for k, v in saved.env_kwargs.items() if _has_text(k, v)}
    if texts and not has_safe_arguments(saved.env):
        raise UserError(
            f"the run's env_kwargs have {json.dumps(texts)}; it is not known if "
            f"{saved.env!r} could execute this text, so it is not read from a folder: "
            "pass all arguments again, as env_kwargs= (flag "
            f"--env_kwargs='{json.dumps(saved.env_kwargs)}')"
        )


def require_variables(user: dict[str, Any], saved: Config) -> None:
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


def _has_text(name: str, value: Any) -> bool:
    """Check if an argument of an environment has text with an unknown meaning."""
    if name in ("render_mode", SEED_ARGUMENT):  # their meaning is known
        return False
    if isinstance(value, dict):
        return any(_has_text("", each) for each in value.values())
    if isinstance(value, list):
        return any(_has_text("", each) for each in value)
    return isinstance(value, str)
