"""Check that the environments of one batch have the same spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfagents_batch.envs.shared.failures import Defect
from tfagents_batch.errors import UserError


def same_spaces(facts: Sequence[dict]) -> None:
    """Raise UserError with the first difference.

    Args:
      facts: spaces of each environment as JSON, see ``construction.inspect``.
    """
    for index, fact in enumerate(facts):
        text = _first_difference(facts[0], fact)
        if text:
            raise UserError(
                f"env {index} and env 0 disagree: {text}; all environments "
                "of a batch need equal spaces"
            )


def check_replacement(before: dict, after: dict) -> None:
    """Raise Defect if an environment has other spaces than the one it replaces."""
    if text := _first_difference(before, after):
        raise Defect(f"the replacement environment has other spaces: {text}")


def _first_difference(ours: dict, theirs: dict) -> str | None:
    """Return the first difference between two environments' spaces, as text."""
    for kind in ("observation_space", "action_space"):
        text = _difference(ours[kind], theirs[kind], kind)
        if text:
            return text
    return None


def _difference(ours: Any, theirs: Any, path: str) -> str | None:
    """Return the first difference between two JSON values, as text."""
    if ours == theirs:
        return None
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in {**ours, **theirs}:
            if key not in ours or key not in theirs:
                who = "env 0" if key in ours else "the other"
                return f"{path} has {key!r} only in {who}"
            text = _difference(ours[key], theirs[key], f"{path}.{key}")
            if text:
                return text
    return f"{path} is {_short(theirs)}, not {_short(ours)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
