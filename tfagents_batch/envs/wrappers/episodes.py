"""Wrappers for the start and end of episodes: random starts, limits and restarts."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from tfagents_batch.envs.wrappers import layers

_STREAM = (0x57A27,)  # separates these draws from others with the same seed


class RandomStart(gymnasium.Wrapper, RecordConstructorArgs):
    """Take ``n`` random actions after each reset, uniform in ``0..max_steps-1``.

    If the episode ends during them, a new one starts with a new ``n``. The wrapper has
    its own random generator. ``reset(seed=...)`` seeds it, differently for each
    environment of a batch; resets without a seed continue it. Rewards of the random
    steps are dropped, and ``info["random_start_steps"]`` is their number. A time limit
    inside this wrapper counts them; a limit around it does not.

    Args:
      env: environment to start; its action space is sampled uniformly.
      max_steps: upper bound of ``n``, exclusive, at least 1.
      retries: maximum number of further episodes to try before ``reset`` raises.

    Raises:
      UserError: for numbers out of range, or if ``env`` restarts by itself.
      RuntimeError: from ``reset``, if every episode ended during its random steps.
    """

    def __init__(self, env: gymnasium.Env, max_steps: int, retries: int = 10):
        RecordConstructorArgs.__init__(self, max_steps=max_steps, retries=retries)
        gymnasium.Wrapper.__init__(self, env)
        layers.refuse_restarts("RandomStart", env)
        self._max_steps = layers.count("RandomStart", "max_steps", max_steps)
        self._retries = layers.count("RandomStart", "retries", retries, least=0)
        # A copy, so that seeding env.action_space changes nothing here.
        self._actions = copy.deepcopy(env.action_space)
        self._generator: np.random.Generator | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        if seed is not None or self._generator is None:
            sequence = np.random.SeedSequence(seed, spawn_key=_STREAM)
            self._generator = np.random.default_rng(sequence)
            self._actions.seed(int(self._generator.integers(2**31)))
        for _ in range(self._retries + 1):
            observation, info = self.env.reset(seed=seed, options=options)
            seed = None  # seed once, or each attempt would be the same episode
            steps = int(self._generator.integers(self._max_steps))
            for _ in range(steps):
                result = self.env.step(self._actions.sample())
                observation, _, terminated, truncated, info = result
                if terminated or truncated:
                    break
            else:
                return observation, {**info, "random_start_steps": steps}
        raise RuntimeError(
            f"RandomStart: {self._retries + 1} episodes in a row ended within their "
            f"random steps; lower max_steps ({self._max_steps}) or raise retries"
        )


class LimitDuration(gymnasium.Wrapper, RecordConstructorArgs):
    """Truncate episodes at step ``max_episode_steps``, and refuse steps after the end.

    The limit sets ``truncated``, never ``terminated``. If the last step terminates the
    episode, ``truncated`` stays false, because nothing was cut off.

    Args:
      env: environment to limit.
      max_episode_steps: limit in steps, at least 1.

    Raises:
      UserError: for a limit out of range, or if ``env`` restarts by itself.
      RuntimeError: from ``step`` before the first reset or after the end of an episode.
    """

    def __init__(self, env: gymnasium.Env, max_episode_steps: int):
        RecordConstructorArgs.__init__(self, max_episode_steps=max_episode_steps)
        gymnasium.Wrapper.__init__(self, env)
        layers.refuse_restarts("LimitDuration", env)
        name = "max_episode_steps"
        self._limit = layers.count("LimitDuration", name, max_episode_steps)
        inner = layers.time_limit(env)
        self._max_episode_steps = min(self._limit, inner or self._limit)
        self._steps: int | None = None  # None between episodes

    @property
    def spec(self):
        """Registered spec with this limit, as in Gymnasium's TimeLimit."""
        spec = super().spec
        if spec is not None:
            spec.max_episode_steps = self._max_episode_steps
        return spec

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        result = self.env.reset(seed=seed, options=options)
        self._steps = 0
        return result

    def step(self, action: Any):
        if self._steps is None:
            raise RuntimeError(
                "LimitDuration: step() was called before reset(), or after the episode "
                "had ended; call reset() first, or wrap this in AutoReset"
            )
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        if self._steps >= self._limit and not terminated:
            truncated = True
        if terminated or truncated:
            self._steps = None
        return observation, reward, terminated, truncated, info


class AutoReset(gymnasium.wrappers.Autoreset):
    """Gymnasium's ``Autoreset`` that also starts an environment that was never reset.

    Use it for single environments in your own loop. The step after the end ignores its
    action and returns the results of ``reset`` with reward 0 and both end flags false:
    ``observation, 0.0, False, False, info``. No observation is lost, and each episode
    has one extra step for the restart, as in a batch of this package. The first
    ``step`` starts the environment if ``reset`` was not called.

    A batch restarts environments itself by ``reset``, which also clears a pending
    restart of this wrapper. Inside a batch it changes nothing; leave it out.

    Args:
      env: outermost layer so far; wrappers around this one see no resets.

    Raises:
      UserError: if an inner layer restarts already.
    """

    def __init__(self, env: gymnasium.Env):
        layers.refuse_restarts("AutoReset", env)
        super().__init__(env)
        self.autoreset = True  # until the first reset or step
