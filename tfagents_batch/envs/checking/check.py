"""``check_env``: what is wrong with an environment, all of it, and how to fix it.

The environment is played in this process with random actions, three times: once to look
at everything it returns, once more on the same instance, and once on a second instance
beside the first, to see whether a seed says all. No TensorFlow here.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

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
from tfagents_batch.envs.checking.returned import Outcome, Returned, snapshot
from tfagents_batch.envs.failures import Defect
from tfagents_batch.envs.wrappers import layers
from tfagents_batch.errors import UserError
from tfagents_batch.spaces import flatten, leaves, pack

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
            events = _play(first, steps, seed, report)
            again = bool(events) and replay.same_again(first, events, seed, report)
            report.facts["reproducible"] = again if events else None
            if mine and events:
                second = replay.make_second(make, first, report)
                if second is not None:
                    close_later(second)
                if second is not None and again:
                    same = replay.same_beside(second, first, events, seed, report)
                    report.facts["reproducible"] = same
                report.facts["after_end"] = replay.after_end(
                    first, events, seed, report
                )
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


def _play(env: Any, steps: int, seed: int, report: Report) -> list[replay.Event]:
    """Check what the environment declares, step it, and check all that it returns.

    Returns:
      what happened up to the first exception; nothing if it cannot be seeded.
    """
    spaces, facts = declared.Spaces(env, report), report.facts
    facts |= spaces.texts
    if spaces.supported:
        facts["max_episode_steps"] = stepper.inspect(env)["max_episode_steps"]
    declared.hint_at_action_scale(spaces.action_space, report)
    takes_seed = declared.check_signatures(env, report)
    if spaces.action_space is None:
        return []
    run = _Run(env, spaces, report, seed if takes_seed else None)
    spaces.action_space.seed(seed)
    while run.steps < steps and run.exceptions < MAX_EXCEPTIONS and not run.stuck:
        run.step() if run.begun else run.reset()
    facts |= {"steps": run.steps, "episodes": len(run.lengths)}
    facts["longest_episode"] = max(run.lengths, default=None)
    if run.rewards:
        facts["reward"] = (min(run.rewards), max(run.rewards))
    if spaces.supported and not run.exceptions and not run.lengths:
        _never_ends(run.steps, facts["max_episode_steps"], report)
    return run.events if takes_seed else []


class _Run:
    """Random play in which everything is checked.

    Attributes:
      steps: that were tried, in all episodes.
      begun: whether an episode is on.
      exceptions: that were raised.
      stuck: whether two resets in a row failed.
      events: what happened, up to the first exception.
      lengths: of the episodes that ended.
      rewards: that are numbers.
    """

    def __init__(
        self, env: Any, spaces: declared.Spaces, report: Report, seed: int | None
    ):
        self.steps = self.exceptions = 0
        self.begun = self.stuck = False
        self.events: list[replay.Event] = []
        self.lengths: list[int] = []
        self.rewards: list[float] = []
        self._env = env
        self._spaces = spaces
        self._report = report
        self._first_seed = {} if seed is None else {"seed": seed}
        self._returned = Returned(spaces.observation_space, report)
        self._failed = False  # the last reset
        self._episode = -1
        self._length = 0
        self._observation: Any = None

    def reset(self) -> None:
        """Begin an episode."""
        self._episode, self._length = self._episode + 1, 0
        place = Place("reset()", self._episode)
        keywords = self._first_seed if self._episode == 0 else {}
        good, result = attempt(self._report, place, self._env.reset, **keywords)
        if not good:
            self.stuck = self._failed
            self._failed = True
            self.exceptions += 1
            return
        digest = replay.digest(result)  # before anything can change it
        self._note(place, None, digest, self._returned.reset(result, place))
        self._spaces.look_again(place, thorough=True)
        self.begun, self._failed = True, False

    def step(self) -> None:
        """Go on with a random action."""
        place = Place("step()", self._episode, self._length)
        self.steps += 1
        action = _sample(self._spaces.action_space, self._observation)
        if self._spaces.supported:
            action = _as_sent(self._spaces.action_space, action)
        given = copy.deepcopy(action)
        good, result = attempt(self._report, place, self._env.step, given)
        if not good:
            self.begun = False
            self.exceptions += 1
            return
        digest = replay.digest(result)
        outcome = self._returned.step(result, place)
        self._length += 1
        if outcome.reward is not None:
            self.rewards.append(outcome.reward)
        if outcome.ended:
            self.lengths.append(self._length)
            self.begun = False
        self._note(place, action, digest, outcome)
        self._spaces.look_again(place, thorough=False)
        if snapshot(action) != snapshot(given):
            self._report.add(
                DEFECT,
                "changed",
                "action",
                f"action was {short(action)}, and step() made it {short(given)}; "
                "expected it to be left alone: work on a copy, such as "
                "np.array(action)",
                place,
            )

    def _note(
        self, place: Place, action: Any, digest: dict[str, int], outcome: Outcome
    ) -> None:
        self._observation = outcome.observation
        self._returned.look_again(place)
        if not self.exceptions:
            event = replay.Event(place, action, digest, outcome.ended)
            self.events.append(event)


def _sample(space: gymnasium.Space, observation: Any) -> Any:
    """A random action, of those that ``observation["action_mask"]`` allows if any."""
    mask = observation.get("action_mask") if isinstance(observation, dict) else None
    if mask is None or not isinstance(space, (gs.Discrete, gs.MultiDiscrete)):
        return space.sample()
    sizes = np.atleast_1d(space.n if isinstance(space, gs.Discrete) else space.nvec)
    mask = (np.asarray(mask) != 0).astype(np.int8)
    if mask.shape != (sizes.sum(),):
        return space.sample()
    parts = np.split(mask, np.cumsum(sizes)[:-1])
    parts = tuple(part if part.any() else np.ones_like(part) for part in parts)
    return space.sample(parts[0] if isinstance(space, gs.Discrete) else parts)


def _as_sent(space: gymnasium.Space, action: Any) -> Any:
    """An action as workers hand it on: arrays, those of a Box without axes too."""
    flat = [
        value if isinstance(leaf.space, gs.Discrete) else np.asarray(value)
        for leaf, value in zip(leaves(space), flatten(space, action), strict=True)
    ]
    return pack(space, flat)


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
