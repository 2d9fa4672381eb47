"""The true value of a trained agent, which only a simulator can tell."""

from __future__ import annotations

import gymnasium
import numpy as np

from examples.notifications import dynamics, simulator

DRAWS = 200  # observations of each core state


def sending(agent) -> np.ndarray:
    """Return the probability that an agent sends, by core state, ``[3, 6, 4]``.

    It is the mean over draws of what is observed in the state. These draws are
    independent in each step, so the probability decides about the agent's value.

    Args:
      agent: result of ``tfb.load``, trained on logged rows or in the simulator.
    """
    core = [np.repeat(x.ravel(), DRAWS) for x in np.indices(dynamics.SHAPE)]
    features = simulator.observe(*core, np.random.default_rng(0))
    present = (~np.isnan(features)).astype(np.float32)
    observation = {"state": np.nan_to_num(features), "presence": present}
    if isinstance(agent.observation_space, gymnasium.spaces.Box):
        observation = observation["state"]
    action, _ = agent.predict(observation)
    return action.reshape(*dynamics.SHAPE, DRAWS).mean(-1)


def value(agent, exploration: float = 0.0) -> float:
    """Return the value of an agent that explores with a probability."""
    send = (1 - exploration) * sending(agent) + exploration / 2
    return dynamics.value(send)
