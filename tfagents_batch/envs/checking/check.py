"""``check_env``: list everything that is wrong with an environment, and how to fix it.

The environment is played in this process with random actions, three times. The first
time checks its results. The second uses the same instance, and the third a new instance
beside it, to check that the seed determines everything. Nothing here needs TensorFlow.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium

from tfagents_batch import spaces
from tfagents_batch.envs import registry
from tfagents_batch.envs.checking.findings import (
    CATCH,
    DEFECT,
    HINT,
    WARNING,
    Place,
    Report,
    short,
    words,
)
from tfagents_batch.envs.checking.play import STEP, Call, Returned, play
from tfagents_batch.envs.checking.scale import (
    hint_at_action_scale,
    hint_at_tiny_rewards,
)
from tfagents_batch.envs.wrappers import layers
from tfagents_batch.envs.wrappers.adapt import create, is_environment
from tfagents_batch.errors import UserError

BESIDE_STEPS = 100  # steps of a second instance beside the first
MAX_EXCEPTIONS = 10  # exceptions of an environment that end its run

# Findings when repeated calls give other results: field, problem and fix.
_SAME_INSTANCE = (
    "reset(seed)",
    "after a reset with the same seed, the same actions give different results",
    "begin reset() with super().reset(seed=seed), and draw every random number from "
    "self.np_random",
)
_NEW_INSTANCE = (
    "constructor",
    "two environments with the same arguments, seed and actions differ",
    "draw random numbers in reset(), from self.np_random, and keep state "
    "in self, not in classes or modules",
)
_RESET = "def reset(self, *, seed=None, options=None)"
Play = Callable[[Any], Iterator[Call]]  # plays an environment with the same calls


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
      env: a name (see ``envs.registry``), a function that creates one environment, or
        an instance. An instance is not closed; reset it before you use it again.
      steps: number of random steps; more steps find rarer defects.
      seed: seed of the environment and of the actions.
      env_kwargs: arguments of the environment.
      raise_on_defect: False returns the report in any case.

    Returns:
      a report that can be printed; see ``envs.checking.findings.Report``.

    Raises:
      UserError: with every defect, where it appeared first and what to do; or for an
        unusable name or argument.
    """
    layers.count("check_env", "steps", steps)
    layers.count("check_env", "seed", seed, least=0)
    make = registry.constructor(env, env_kwargs)
    report = Report(registry.describe(env))
    owned = not is_environment(env)  # created here, so closed here
    created, first = report.attempt(
        Place("constructor"), lambda: create(make, close=owned)
    )
    second = None
    try:
        calls, replay = _check(first, steps, seed, report) if created else ([], None)
        if calls and replay is not None:
            same = _same(report, _SAME_INSTANCE, calls, replay(first))
            second = _second(make, first, report) if owned else None
            if same and second is not None:
                before, both = calls[: BESIDE_STEPS + 1], map(replay, (first, second))
                same = _same(report, _NEW_INSTANCE, before, *both)
            report.facts["reproducible"] = same
    finally:
        for instance in (second, first) if owned else ():
            close = getattr(instance, "close", lambda: None)
            report.attempt(Place("close()"), close)
    if report.defects and raise_on_defect:
        lines = [finding.full_text() for finding in report.defects]
        raise UserError("\n".join([report.headline(), *lines]))
    return report


def _second(make: Callable[[], Any], first: Any, report: Report) -> Any:
    """Create another environment beside the first; return None if that fails."""
    place = Place("constructor")
    try:
        env = create(make)
    except CATCH as error:
        text = (
            f"a second environment cannot be created beside the first: {words(error)}; "
            "expected any number of them: use separate files, ports and devices, or "
            "give each its own process with num_workers=num_envs"
        )
        report.add(WARNING, "alone", "constructor", text, place)
        return None
    if getattr(env, "unwrapped", env) is not getattr(first, "unwrapped", first):
        return env
    text = (
        "the constructor returned the same environment twice, so a batch would hold "
        "only one; expected a new one: create it inside the function"
    )
    report.add(DEFECT, "shared", "constructor", text, place)
    return None


def _check(
    env: Any, steps: int, seed: int, report: Report
) -> tuple[list[Call], Play | None]:
    """Check what the environment declares, step it, and check everything it returns.

    Returns:
      the calls up to the first exception (empty if the environment takes no seed), and
      a function that plays an environment with the same calls; None without actions.
    """
    observations, actions = _check_spaces(env, report)
    supported, facts = not report.defects, report.facts
    if supported and actions is not None:
        facts["max_episode_steps"] = layers.time_limit(env)
        hint_at_action_scale(actions, report)
    seeded = _check_signatures(env, report)
    if actions is None:
        return [], None
    replay = functools.partial(
        play, space=actions, seed=seed, steps=steps, report=report
    )
    returned = Returned(observations, actions, report)
    calls: list[Call] = []
    lengths, rewards, num_steps, exceptions = [], [], 0, 0
    for call in replay(env, seeded=seeded, patience=MAX_EXCEPTIONS):
        place = call.place
        num_steps += place.call == STEP
        exceptions += call.raised
        if call.raised:
            continue
        if place.step is not None:
            rewards.append(returned.step(call.result, place))
            lengths += [place.step + 1] if call.ended else []
        else:
            returned.reset(call.result, place)
        returned.find_changes(place)
        if not exceptions:
            calls.append(call._replace(result=None))
    facts |= {"steps": num_steps, "episodes": len(lengths)}
    facts["shortest_episode"] = min(lengths, default=None)
    facts["longest_episode"] = max(lengths, default=None)
    rewards = [reward for reward in rewards if reward is not None]
    if rewards:
        facts["reward"] = (min(rewards), max(rewards))
        hint_at_tiny_rewards(rewards, report)
    returned.judge_scales()
    if supported and not exceptions and not lengths:
        _add_never_ends(num_steps, facts["max_episode_steps"], report)
    return calls if seeded else [], replay


def _check_spaces(
    env: Any, report: Report
) -> tuple[gymnasium.Space | None, gymnasium.Space | None]:
    """Check both spaces, and return them.

    An observation space that is not supported becomes None, and so does what is no
    action space.
    """
    for name in ("observation_space", "action_space"):
        space = getattr(env, name)
        report.facts[name] = short(space)
        try:
            if not spaces.is_empty(space):
                continue
            text = (
                f"{name} is {space}, without numbers; expected at least one: give it "
                "another shape"
            )
        except UserError as error:
            text = f"{name}: {error}"
        report.add(DEFECT, "unsupported", name, text, Place("constructor"))
    unsupported = [finding.field for finding in report.defects]
    observations = None if "observation_space" in unsupported else env.observation_space
    is_space = isinstance(env.action_space, gymnasium.Space)
    return observations, env.action_space if is_space else None


def _check_signatures(env: Any, report: Report) -> bool:
    """Check the arguments of each layer's ``reset``; return whether all take a seed."""
    takes_seed = True
    for layer in _layers(env):
        try:
            signature = inspect.signature(layer.reset)
        except (TypeError, ValueError):  # not a Python function
            continue
        name = type(layer).__name__
        for keyword in ("seed", "options"):
            try:
                signature.bind_partial(**{keyword: None})
            except TypeError:
                takes_seed = takes_seed and keyword != "seed"
                text = f"reset() of {name} takes no {keyword}; expected {_RESET}: start"
                text += " with super().reset(seed=seed)"
                report.add(DEFECT, f"no {keyword}", "reset()", text, Place())
    return takes_seed


def _layers(env: Any) -> Iterator[Any]:
    """Yield the wrappers from the outside in, then the environment."""
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env
    yield env


def _add_never_ends(steps: int, limit: int | None, report: Report) -> None:
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


def _same(
    report: Report,
    texts: tuple[str, str, str],
    before: Sequence[Call],
    *plays: Iterator[Call],
) -> bool:
    """Return whether the last of several interleaved plays repeats the earlier calls.

    A difference is added as a warning.
    """
    for old, *new in zip(before, *plays, strict=False):
        if any(call.raised for call in new):  # already a finding
            return False
        digest = new[-1].digest
        names = [x for x in old.digest | digest if old.digest.get(x) != digest.get(x)]
        if names:
            field, what, fix = texts
            text = f"{what} in {', '.join(names)}; expected the same: {fix}"
            report.add(WARNING, "not reproducible", field, text, old.place)
            return False
    return True
