"""Does a seed say all? The same calls again, on one instance or on two."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfagents_batch.envs.adapters.adapt import adapt
from tfagents_batch.envs.checking.attempt import CATCH, words
from tfagents_batch.envs.checking.findings import DEFECT, HINT, WARNING, Place, Report
from tfagents_batch.envs.checking.play import Call, has_ended, parts

BESIDE_STEPS = 100  # of a second instance beside the first
# A function of an environment that plays what was played before.
Play = Callable[[Any], Iterator[Call]]


def same_again(env: Any, before: Sequence[Call], again: Play, report: Report) -> bool:
    """Whether the same instance does the same again.

    Args:
      env: the instance.
      before: what happened before.
      again: plays it again.
      report: gets the first difference.
    """
    return _same(
        _difference(before, again(env)),
        report,
        "reset(seed)",
        "reset with the same seed and given the same actions, it differs",
        "begin reset() with super().reset(seed=seed), and draw every random number "
        "from self.np_random",
    )


def same_beside(
    second: Any, first: Any, before: Sequence[Call], again: Play, report: Report
) -> bool:
    """Whether a second instance does what the first did, while that goes on too."""
    before = before[: BESIDE_STEPS + 1]
    return _same(
        _difference(before, again(first), again(second)),
        report,
        "constructor",
        "two environments made alike, of the same seed and actions, differ",
        "draw in reset(), from self.np_random, what the constructor draws, and keep "
        "state in self, not in classes or modules",
    )


def _difference(
    before: Sequence[Call], *plays: Iterator[Call]
) -> tuple[Place, list[str]] | None:
    """The first call that did something else, and the fields that differ.

    Args:
      before: what happened before.
      plays: of environments that take turns; the last one is compared.

    Returns:
      no fields if the call raised; None if there was no such call.
    """
    for old, *new in zip(before, *plays, strict=False):
        if any(call.raised for call in new):
            return old.place, []
        found = new[-1].digest
        names = [x for x in old.digest | found if old.digest.get(x) != found.get(x)]
        if names:
            return old.place, names
    return None


def _same(
    found: tuple[Place, list[str]] | None,
    report: Report,
    field: str,
    what: str,
    fix: str,
) -> bool:
    if found is None:
        return True
    place, fields = found
    if fields:  # what raised is a finding already
        text = f"{what} in {', '.join(fields)}; expected the same: {fix}"
        report.add(WARNING, "not reproducible", field, text, place)
    return False


def make_second(make: Callable[[], Any], first: Any, report: Report) -> Any:
    """Another environment beside the first; None if there can be none."""
    place = Place("constructor")
    try:
        env = adapt(make())
    except CATCH as error:
        report.add(
            WARNING,
            "alone",
            "constructor",
            f"a second environment cannot be made beside the first: {words(error)}; "
            "expected any number of them: keep files, ports and devices apart, or give "
            "each a process of its own with num_workers=num_envs",
            place,
        )
        return None
    if getattr(env, "unwrapped", env) is getattr(first, "unwrapped", first):
        report.add(
            DEFECT,
            "shared",
            "constructor",
            "the constructor returned the same environment twice, so all of a batch "
            "would be one; expected a new one: make it inside the function",
            place,
        )
        return None
    return env


def after_end(
    env: Any, before: Sequence[Call], again: Play, report: Report
) -> str | None:
    """What a step does after an episode ended; None if that is not known."""
    index = next((i for i, call in enumerate(before) if call.ended), None)
    if index is None or _difference(before[: index + 1], again(env)) is not None:
        return None
    last = before[index]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # to warn is right
        try:
            result = env.step(copy.deepcopy(last.action))
        except CATCH as error:
            return f"raises {type(error).__name__}"
    if has_ended(parts(result)):
        return "stays ended"
    report.add(
        HINT,
        "goes on",
        "step()",
        "step() after the end of an episode goes on as if nothing had ended; here "
        "reset() always comes first, but if the environment restarts by itself, its "
        "last observation is lost: leave restarting to the caller",
        last.place._replace(step=last.place.step + 1),
    )
    return "goes on"
