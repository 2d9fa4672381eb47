"""Begin episodes with random actions."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from tfagents_batch.envs.wrappers import layers

_STREAM = (0x57A27,)  # tells these draws from others that are keyed by the same seed


class RandomStart(gymnasium.Wrapper, RecordConstructorArgs):
    """Takes ``n`` random actions after each reset, ``n`` uniform in ``0..max_steps-1``.

    Should the episode end meanwhile, another is begun with another ``n``. The draws
    come from a generator of this wrapper alone, keyed by the seed of ``reset``, which
    in a batch is another one for each environment; later resets continue it. Rewards
    of the random steps are dropped, and ``info["random_start_steps"]`` counts them. A
    time limit beneath counts them too, one around this wrapper does not.

    Args:
      env: to be started; its action space is sampled uniformly.
      max_steps: one more than the most random actions, at least 1.
      retries: episodes begun anew, at most, before ``reset`` gives up.

    Raises:
      UserError: for other numbers, or if ``env`` restarts by itself.
      RuntimeError: from ``reset``, if every attempt ended.
    """

    def __init__(self, env: gymnasium.Env, max_steps: int, retries: int = 10):
        RecordConstructorArgs.__init__(self, max_steps=max_steps, retries=retries)
        gymnasium.Wrapper.__init__(self, env)
        layers.refuse_restarts("RandomStart", env)
        self._max_steps = layers.count("RandomStart", "max_steps", max_steps)
        self._retries = layers.count("RandomStart", "retries", retries, least=0)
        # A copy, so that seeding the one that users see changes nothing here.
        self._actions = copy.deepcopy(env.action_space)
        self._generator: np.random.Generator | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        if seed is not None or self._generator is None:
            sequence = np.random.SeedSequence(seed, spawn_key=_STREAM)
            self._generator = np.random.default_rng(sequence)
            self._actions.seed(int(self._generator.integers(2**31)))
        for _ in range(self._retries + 1):
            observation, info = self.env.reset(seed=seed, options=options)
            seed = None  # once: or each attempt would be the same episode
            steps = int(self._generator.integers(self._max_steps))
            ended = False
            for _ in range(steps):
                result = self.env.step(self._actions.sample())
                observation, _, terminated, truncated, info = result
                ended = bool(terminated or truncated)
                if ended:
                    break
            if not ended:
                return observation, {**info, "random_start_steps": steps}
        raise RuntimeError(
            f"RandomStart: {self._retries + 1} episodes in a row ended within their "
            f"random steps; lower max_steps ({self._max_steps}) or raise retries"
        )
