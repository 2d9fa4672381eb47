"""config.json of a run: its config, and what of the user's own code it needs again."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tfagents_batch import algorithms, config
from tfagents_batch.envs.registry import describe, needs_user_code
from tfagents_batch.errors import UserError
from tfagents_batch.training.experiment import Config

SCHEMA = 1


def to_text(
    resolved: Config,
    env: Any,
    network: Any,
    user: dict[str, Any] | None = None,
    eval_env: Any = None,
) -> str:
    """The text of a file.

    Args:
      resolved: of the run.
      env, network, eval_env: as the user gave them.
      user: what an older text of the run said of the user's code; it stays.
    """
    user = user or {
        "env": resolved.env if needs_user_code(env) else None,
        "network": describe(network) if network is not None else None,
        "eval_env": describe(eval_env) if eval_env is not None else None,
    }
    data = {"schema": SCHEMA, "config": config.to_dict(resolved), "user_code": user}
    return json.dumps(data, indent=2) + "\n"


def from_text(text: str) -> tuple[Config, dict[str, str | None]]:
    """A config, and the names of the user's own ``env`` and ``network`` or None.

    Raises:
      UserError: if it is not what ``to_text`` writes.
    """
    try:
        data = json.loads(text)
        schema, plain, user = data["schema"], data["config"], data["user_code"]
        algorithm = plain["algorithm"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"config.json of the run cannot be read ({type(error).__name__}: {error}); "
            "expected what a train command writes"
        ) from error
    if schema != SCHEMA:
        raise UserError(
            f"config.json has schema {schema!r}; this version reads {SCHEMA}: upgrade "
            "tfagents_batch"
        )
    if algorithm not in algorithms.REGISTRY:
        raise UserError(config.unknown("algorithm", algorithm, algorithms.REGISTRY))
    settings = config.from_dict(
        algorithms.REGISTRY[algorithm][1], plain.pop("settings", {})
    )
    saved = dataclasses.replace(config.from_dict(Config, plain), settings=settings)
    if needs_user_code(saved.env):  # whatever the file says of it
        user = user | {"env": saved.env}
    return saved, user


def need(user: dict[str, str | None], env: Any, network: Any) -> None:
    """Refuse to go on without code of the user's that a folder only names."""
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


def need_evaluation(user: dict[str, str | None], eval_env: Any) -> None:
    """Refuse to evaluate a resumed run on something else than before."""
    if user.get("eval_env") and eval_env is None:
        raise UserError(
            f"the run was evaluated on {user['eval_env']!r}; pass it again as "
            "eval_env=, or pass eval_every=0"
        )
