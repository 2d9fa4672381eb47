"""``check_env``: what is wrong with an environment, all of it, and how to fix it.

The environment is played in this process with random actions, three times: once to look
at everything it returns, once more on the same instance, and once on a second instance
beside the first, to see whether a seed says all. No TensorFlow here.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import gymnasium

from tfagents_batch.envs import registry, stepper, validation
from tfagents_batch.envs.adapters.adapt import adapt, is_environment
from tfagents_batch.envs.checking import declared, replay
from tfagents_batch.envs.checking.attempt import attempt, short
from tfagents_batch.envs.checking.findings import (
    DEFECT,
    HINT,
    WARNING,
    Place,
    Report,
)
from tfagents_batch.envs.checking.play import STEP, Call, play, snapshot
from tfagents_batch.envs.checking.returned import Returned
from tfagents_batch.envs.failures import Defect
from tfagents_batch.envs.wrappers import layers
from tfagents_batch.errors import UserError

MAX_EXCEPTIONS = 10  # of an environment, before its run is ended


def check_env(
    env: str | Callable[..., gymnasium.Env] | gymnasium.Env,
    steps: int = 1000,
    seed: int = 0,
    env_kwargs: dict[str, Any] | None = None,
    *,
    raise_on_defect: bool = True,
) -> Report:
    """Play an environment and find everything that is wrong with it.

    >>> check_env("CartPole-v1").ok
    True

    Args:
      env: a name (see ``envs.registry``), a function that makes one environment, or an
        instance, which is not closed and should be reset before it is used again.
      steps: of random play; more reach rarer defects.
      seed: of the environment and of the actions.
      env_kwargs: arguments of the environment.
      raise_on_defect: False returns the report in any case.

    Returns:
      what was found, to be printed; see ``envs.checking.findings.Report``.

    Raises:
      UserError: with every defect, where it was seen first and what to do; or for a
        name or argument that cannot be used.
    """
    layers.count("check_env", "steps", steps)
    layers.count("check_env", "seed", seed, least=0)
    make = registry.constructor(env, env_kwargs)
    mine = not is_environment(env)  # made here, so closed here
    report = Report(registry.describe(env))
    with contextlib.ExitStack() as stack:

        def close_later(env: Any) -> None:
            close = getattr(env, "close", lambda: None)
            stack.callback(attempt, report, Place("close()"), close)

        first = _construct(make, report)
        if first is not None:
            if mine:
                close_later(first)
            calls, again = _check(first, steps, seed, report)
            same = bool(calls) and replay.same_again(first, calls, again, report)
            if mine and calls:
                second = replay.make_second(make, first, report)
                if second is not None:
                    close_later(second)
                    same = same and replay.same_beside(
                        second, first, calls, again, report
                    )
                after = replay.after_end(first, calls, again, report)
                report.facts["after_end"] = after
            report.facts["reproducible"] = same if calls else None
    if report.defects and raise_on_defect:
        lines = [finding.full_text() for finding in report.defects]
        raise UserError("\n".join([report.headline(), *lines]))
    return report


def _construct(make: Callable[[], Any], report: Report) -> Any:
    """The environment; None if there is none to check."""
    place = Place("constructor")
    good, env = attempt(report, place, lambda: adapt(make()))
    if not good:
        return None
    try:
        validation.environment(env)
    except Defect as defect:
        report.add_defect(defect, place)
        return None
    return env


def _check(
    env: Any, steps: int, seed: int, report: Report
) -> tuple[list[Call], replay.Play]:
    """Check what the environment declares, step it, and check all that it returns.

    Returns:
      what happened up to the first exception, nothing if it cannot be seeded; and a
      function of an environment that plays the same again.
    """
    spaces, facts = declared.Spaces(env, report), report.facts
    facts |= spaces.texts
    if spaces.supported:
        facts["max_episode_steps"] = stepper.inspect(env)["max_episode_steps"]
    declared.hint_at_action_scale(spaces.action_space, report)
    seeded = declared.check_signatures(env, report)
    again = functools.partial(
        play, space=spaces.action_space, seed=seed, steps=steps, report=report
    )
    if spaces.action_space is None:
        return [], again
    returned = Returned(spaces.observation_space, report)
    calls: list[Call] = []
    lengths, rewards, tried, exceptions = [], [], 0, 0
    for call in again(env, seeded=seeded, patience=MAX_EXCEPTIONS):
        place, stepping = call.place, call.place.call == STEP
        tried += stepping
        exceptions += call.raised
        if call.raised:
            continue
        if stepping:
            rewards.append(returned.step(call.result, place))
            lengths += [place.step + 1] if call.ended else []
        else:
            returned.reset(call.result, place)
        returned.look_again(place)
        spaces.look_again(place, thorough=not stepping)
        if snapshot(call.action) != snapshot(call.given):
            _changed(call, report)
        if not exceptions:
            calls.append(call._replace(result=None))
    facts |= {"steps": tried, "episodes": len(lengths)}
    facts["longest_episode"] = max(lengths, default=None)
    rewards = [reward for reward in rewards if reward is not None]
    if rewards:
        facts["reward"] = (min(rewards), max(rewards))
    if spaces.supported and not exceptions and not lengths:
        _never_ends(tried, facts["max_episode_steps"], report)
    return calls if seeded else [], again


def _changed(call: Call, report: Report) -> None:
    text = (
        f"action was {short(call.action)}, and step() made it {short(call.given)}; "
        "expected it to be left alone: work on a copy, such as np.array(action)"
    )
    report.add(DEFECT, "changed", "action", text, call.place)


def _never_ends(steps: int, limit: int | None, report: Report) -> None:
    text = f"no episode ended in {steps} steps, "
    if limit is None:
        level = WARNING
        text += (
            "and there is no time limit; expected episodes that end: wrap it in "
            "gymnasium.wrappers.TimeLimit(env, max_episode_steps), or register it with "
            "max_episode_steps"
        )
    else:
        level = HINT
        text += f"so no end was checked; the time limit is {limit}: pass more steps"
    report.add(level, "never ends", "step()", text, Place())
