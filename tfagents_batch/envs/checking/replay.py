"""Does a seed say all? The same calls again, on one instance or on two."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tfagents_batch.envs.adapters.adapt import adapt
from tfagents_batch.envs.checking.attempt import CATCH, attempt, words
from tfagents_batch.envs.checking.findings import DEFECT, HINT, WARNING, Place, Report
from tfagents_batch.envs.checking.returned import Returned, snapshot

BESIDE_STEPS = 100  # of a second instance beside the first


class Event(NamedTuple):
    """A call that returned.

    Attributes:
      place: of the call; the first one is a reset with the seed.
      action: None for a reset.
      digest: of what it returned, see ``digest``.
      ended: whether it ended the episode.
    """

    place: Place
    action: Any
    digest: dict[str, int]
    ended: bool


def replay(
    envs: Sequence[Any], events: Sequence[Event], seed: int, report: Report
) -> tuple[Place, list[str]] | None:
    """Do the same again, up to the first difference.

    Args:
      envs: reset with the seed, then given the same actions, all of them in turn; the
        last one is compared.
      events: what happened before.
      seed: of the first reset.
      report: gets what raises.

    Returns:
      the first call that did something else and the fields that differ: none of them
      if it raised. None if there was no such call.
    """
    for index, (place, action, before, _) in enumerate(events):
        seeded = {"seed": seed} if index == 0 else {}
        for each in envs:
            if action is None:
                good, result = attempt(report, place, each.reset, **seeded)
            else:
                given = copy.deepcopy(action)
                good, result = attempt(report, place, each.step, given)
            if not good:
                return place, []
        after = digest(result)
        fields = [x for x in before | after if before.get(x) != after.get(x)]
        if fields:
            return place, fields
    return None


def same_again(env: Any, events: Sequence[Event], seed: int, report: Report) -> bool:
    """Whether the same instance does the same again."""
    return _same(
        replay([env], events, seed, report),
        report,
        "reset(seed)",
        "reset with the same seed and given the same actions, it differs",
        "begin reset() with super().reset(seed=seed), and draw every random number "
        "from self.np_random",
    )


def same_beside(
    second: Any, first: Any, events: Sequence[Event], seed: int, report: Report
) -> bool:
    """Whether a second instance does what the first did, while that goes on too."""
    return _same(
        replay([first, second], events[: BESIDE_STEPS + 1], seed, report),
        report,
        "constructor",
        "two environments made alike, of the same seed and actions, differ",
        "draw in reset(), from self.np_random, what the constructor draws, and keep "
        "state in self, not in classes or modules",
    )


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
    env: Any, events: Sequence[Event], seed: int, report: Report
) -> str | None:
    """What a step does after an episode ended; None if that is not known."""
    index = next((i for i, event in enumerate(events) if event.ended), None)
    if index is None or replay([env], events[: index + 1], seed, report) is not None:
        return None
    place = events[index].place._replace(step=events[index].place.step + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # to warn is right
        try:
            result = env.step(copy.deepcopy(events[index].action))
        except CATCH as error:
            return f"raises {type(error).__name__}"
    if Returned(None, Report()).step(result, place).ended:
        return "stays ended"
    report.add(
        HINT,
        "goes on",
        "step()",
        "step() after the end of an episode goes on as if nothing had ended; here "
        "reset() always comes first, but if the environment restarts by itself, its "
        "last observation is lost: leave restarting to the caller",
        place,
    )
    return "goes on"


def digest(result: Any) -> dict[str, int]:
    """Hashes of what was returned by field, without info, which may hold the time."""
    names = {2: ("observation",), 4: ("observation", "reward", "done")}
    names[5] = ("observation", "reward", "terminated", "truncated")
    known = names.get(len(result), ()) if isinstance(result, tuple) else ()
    parts = zip(known, result, strict=False) if known else [("observation", result)]
    flat = [snapshot(part, name) for name, part in parts]
    return {name: hash(content) for each in flat for name, content in each.items()}
