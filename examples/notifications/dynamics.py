"""Users who get notifications: what happens after a notification is sent or dropped.

The *core* of a user's state is their interest (0 to 2), their fatigue (0 to 5), and the
class of the next notification (0 to 3), which is drawn anew in each step. Arrays over
all core states have the shape ``[3, 6, 4]``. The actions are 0, drop, and 1, send.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

ACTIONS = ("drop", "send")
GAMMA = 0.98
SHAPE = (3, 6, 4)  # numbers of interests, fatigues and classes
CLASSES = np.array([0.4, 0.3, 0.2, 0.1])  # probabilities
START = np.array([0.3, 0.5, 0.2])  # probabilities of interests; fatigue starts at 0
APPEAL = np.array([0.02, 0.08, 0.20, 0.40])  # of classes
MULTIPLIER = np.array([0.5, 1.0, 1.5])  # of interests
ACTIVITY = np.array([0.0, 0.02, 0.05])  # reward of interests
PRICE = 0.05  # of a sent notification


def predicted_rate(interest, kind):
    """Return the click rate that is predicted: it knows nothing of fatigue."""
    return APPEAL[kind] * MULTIPLIER[interest]


def click_rate(interest, fatigue, kind):
    """Return the probability that a sent notification is clicked."""
    return predicted_rate(interest, kind) * 0.6**fatigue


class After(NamedTuple):
    """Outcome of decisions; all ``[n]``."""

    interest: np.ndarray
    fatigue: np.ndarray
    clicked: np.ndarray  # bool
    reward: np.ndarray
    left: np.ndarray  # bool: the user leaves for good


def step(interest, fatigue, kind, send, rng) -> After:
    """Draw what happens to n users; all arguments but the generator are ``[n]``."""
    clicks, moves, leaves = rng.random((3, len(interest)))
    clicked = send & (clicks < click_rate(interest, fatigue, kind))
    up = np.where(send, np.where(clicked, 0.3, 0.0), np.where(interest == 0, 0.1, 0.0))
    down = np.where(
        send,
        np.where(clicked, 0.0, 0.04 * (fatigue + 1)),
        np.where(interest == 2, 0.02, 0.0),
    )
    change = np.where(moves < up, 1, np.where(moves < down, -1, 0))
    return After(
        np.clip(interest + change, 0, 2),
        np.clip(fatigue + np.where(send, 1, -1), 0, 5),
        clicked,
        clicked - PRICE * send + ACTIVITY[interest],
        leaves < 0.05 + 0.02 * fatigue * send,
    )


def value(send: np.ndarray) -> float:
    """Return the exact value of a policy: its mean discounted return.

    Args:
      send: ``[3, 6, 4]``, probability of sending in each core state.
    """
    q = action_values(send)
    states = send * q[..., 1] + (1 - send) * q[..., 0]
    return float(START @ states[:, 0] @ CLASSES)


def action_values(send: np.ndarray) -> np.ndarray:
    """Return Q ``[3, 6, 4, 2]`` of a policy, by a linear solve."""
    reward, move = model()
    policy = np.stack([1 - send, send], -1)
    expected = np.einsum("ifka,ifka->ifk", policy, reward) @ CLASSES
    # Classes are drawn anew, so values of interest and fatigue are enough.
    moves = np.einsum("ifka,ifkajg,k->ifjg", policy, move, CLASSES).reshape(18, 18)
    values = np.linalg.solve(np.eye(18) - GAMMA * moves, expected.ravel())
    return reward + GAMMA * np.einsum("ifkajg,jg->ifka", move, values.reshape(3, 6))


def optimal() -> np.ndarray:
    """Return the best policy: 1 where sending is best, ``[3, 6, 4]``."""
    send = np.zeros(SHAPE)
    while True:
        q = action_values(send)
        better = (q[..., 1] > q[..., 0]).astype(float)
        if (better == send).all():
            return send
        send = better


def logging_probability(rate: np.ndarray) -> np.ndarray:
    """Return the probability that the first policy sends, by the predicted rate."""
    return np.clip(1 / (1 + np.exp(-(rate - 0.08) / 0.03)), 0.1, 0.9)


def logger() -> np.ndarray:
    """Return the probability that the logging policy sends, ``[3, 6, 4]``."""
    interest, _, kind = np.indices(SHAPE)
    return logging_probability(predicted_rate(interest, kind))


def model() -> tuple[np.ndarray, np.ndarray]:
    """Return mean rewards ``[3, 6, 4, 2]`` and probabilities of what is next.

    The latter are ``[3, 6, 4, 2, 3, 6]``, over interest and fatigue of users who stay.
    """
    reward, move = np.zeros((*SHAPE, 2)), np.zeros((*SHAPE, 2, 3, 6))
    for i, f, k in np.ndindex(*SHAPE):
        clicked = click_rate(i, f, k)
        reward[i, f, k] = ACTIVITY[i], clicked - PRICE + ACTIVITY[i]
        stay, calm = 0.95, max(f - 1, 0)
        up, down = 0.1 * (i == 0), 0.02 * (i == 2)
        move[i, f, k, 0, min(i + 1, 2), calm] += stay * up
        move[i, f, k, 0, max(i - 1, 0), calm] += stay * down
        move[i, f, k, 0, i, calm] += stay * (1 - up - down)
        stay, tired = 0.95 - 0.02 * f, min(f + 1, 5)
        up, down = 0.3 * clicked, 0.04 * (f + 1) * (1 - clicked)
        move[i, f, k, 1, min(i + 1, 2), tired] += stay * up
        move[i, f, k, 1, max(i - 1, 0), tired] += stay * down
        move[i, f, k, 1, i, tired] += stay * (1 - up - down)
    return reward, move
