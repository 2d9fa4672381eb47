"""Small worlds whose values are known exactly, and policies that had luck in a log."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from tfagents_batch.offline import table_reader
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.timeline import TimelineConfig, build


@dataclasses.dataclass(frozen=True)
class World:
    """A Markov decision process of S states and A actions.

    Attributes:
      name: name of the world.
      moves: f64 ``[S, A, S]``, probabilities of the next states; the rest of 1 ends.
      reward: f64 ``[S, A]``, mean rewards.
      logging: f64 ``[S, A]``, the logging policy.
      start: f64 ``[S]``, probabilities of the first states.
      noise: "normal" with deviation 1, "click" (0 or 1), or "rare" (a click in 50 pays
        lognormal money, whose mean is the reward).
    """

    name: str
    moves: np.ndarray
    reward: np.ndarray
    logging: np.ndarray
    start: np.ndarray
    noise: str = "click"
    gamma: float = 0.95

    def value(self, policy: np.ndarray) -> float:
        """Return the exact value of a policy at the start."""
        moves = np.einsum("sa,sat->st", policy, self.moves) * self.gamma
        reward = (policy * self.reward).sum(1)
        return float(self.start @ np.linalg.solve(np.eye(len(moves)) - moves, reward))

    def best(self) -> np.ndarray:
        """Return the best policy, f64 ``[S, A]``."""
        return greedy(self.moves, self.reward, self.gamma, self.reward < np.inf)

    def log(self, episodes: int, seed: int) -> dict[str, np.ndarray]:
        """Return columns of logged rows: the first ones of all episodes, and so on."""
        random, found, size = np.random.default_rng(seed), [], len(self.start)
        state = random.choice(size, episodes, p=self.start)
        alive, step = np.arange(episodes), 0
        while len(alive):
            action = _draw(self.logging[state], random)
            reward = self._reward(self.reward[state, action], random)
            chances = self.moves[state, action]
            ends = 1 - chances.sum(1, keepdims=True)
            after = _draw(np.hstack([chances, ends]), random)
            done = after == size
            rows = alive, np.full(len(alive), step), state, action, reward, done
            found.append(rows)
            alive, state, step = alive[~done], after[~done], step + 1
        names = "episode", "step", "state", "action", "reward", "done"
        columns = (np.concatenate(x) for x in zip(*found, strict=True))
        return dict(zip(names, columns, strict=True))

    def _reward(self, mean: np.ndarray, random: np.random.Generator) -> np.ndarray:
        if self.noise == "normal":
            return mean + random.normal(size=len(mean))
        if self.noise == "click":
            return (random.random(len(mean)) < mean).astype(float)
        paid = random.random(len(mean)) < 0.02
        return paid * mean / 0.02 * random.lognormal(-0.5, 1, len(mean))

    def table(self, folder, episodes: int, seed: int, **settings):
        """Write the timeline of a log, and return its partition."""
        rows, size = self.log(episodes, seed), len(self.start)
        count = len(rows["state"])
        table = pa.table(
            {
                "ds": pa.array(["2026-01-01"] * count),
                "mdp_id": [f"{seed}-{x}" for x in rows["episode"]],
                "sequence_number": rows["step"],
                "state_features": pa.array(np.eye(size)[rows["state"]].tolist()),
                "action": [str(x) for x in rows["action"]],
                "action_probability": self.logging[rows["state"], rows["action"]],
                "reward": rows["reward"],
                "terminated": rows["done"],
            }
        )
        with open_rows(table) as opened:
            config = TimelineConfig(gamma=self.gamma, **settings)
            build(opened, opened.find_schema(), config, str(folder))
        return table_reader.partition(folder)


class Policy:
    """Policy of a table of probabilities, an ``evaluate.Candidate``."""

    name = "lucky"

    def __init__(self, probabilities: np.ndarray, actions):
        self._rows = probabilities[:, [int(x) for x in actions]]

    def probabilities(self, columns, part):
        return self._rows[np.nan_to_num(columns[f"{part}state"]).argmax(-1)]


def greedy(moves, reward, gamma: float, allowed: np.ndarray) -> np.ndarray:
    """Return the best policy of a model that takes only allowed actions."""
    value = np.zeros(len(reward))
    for _ in range(300):
        q = np.where(allowed, reward + gamma * moves @ value, -np.inf)
        value = q.max(1)
    return np.eye(reward.shape[1])[q.argmax(1)]


def lucky(world: World, columns: dict[str, np.ndarray], least: int = 5) -> np.ndarray:
    """Return the best policy of the means of rows, f64 ``[S, A]``: it had luck in them.

    Args:
      world: gives the discount, and its logging policy where a state was not logged.
      columns: rows, see ``table_reader.read``.
      least: rows with which an action of a state is used.
    """
    size, actions = world.reward.shape
    state = np.nan_to_num(columns["state"]).argmax(-1)
    after = np.nan_to_num(columns["next_state"]).argmax(-1)
    rows, total = np.zeros([size, actions]), np.zeros([size, actions])
    moves = np.zeros([size, actions, size])
    goes_on = ~columns["terminated"]
    np.add.at(rows, (state, columns["action"]), 1)
    np.add.at(total, (state, columns["action"]), columns["reward"])
    np.add.at(moves, (state, columns["action"], after), goes_on)
    known = np.maximum(rows, 1)
    allowed = rows >= least
    allowed |= ~allowed.any(1, keepdims=True) & (world.logging > 0)
    found = greedy(moves / known[..., None], total / known, world.gamma, allowed)
    return np.where((rows >= least).any(1, keepdims=True), found, world.logging)


def better(world: World, ratio: float) -> tuple[World, np.ndarray]:
    """Return a world whose logger explores, and a policy that is better than it.

    Args:
      world: gives all but the logging policy.
      ratio: value of the policy by that of the log; costs are divided by it.
    """
    best = world.best()
    uniform = np.full(best.shape, 1 / best.shape[1])
    found = dataclasses.replace(world, logging=0.1 * best + 0.9 * uniform)
    base, low, high = found.value(found.logging), 0.0, 1.0
    target = base * ratio if base > 0 else base / ratio
    for _ in range(40):
        share = (low + high) / 2
        mixed = (1 - share) * found.logging + share * best
        low, high = (share, high) if found.value(mixed) < target else (low, share)
    return found, mixed


def all_worlds() -> list[World]:
    """Return six worlds: of one decision or many, of clicks, costs and rare money."""
    return [_clicks(), _alike(), _chain(), _money(), _visits(), _costs()]


def _clicks() -> World:
    """3 kinds of users and 6 items, one of which is clicked more often."""
    chance = np.full([3, 6], 0.12)
    chance[np.arange(3), [0, 2, 4]] = 0.2
    return _explored(World("clicks", *_one_decision(chance)), 0.3)


def _alike() -> World:
    """Actions that are worth 99 % of the one that the logger prefers."""
    reward = np.full([4, 6], 0.99)
    reward[:, 0] = 1.0
    return _explored(World("alike", *_one_decision(reward), noise="normal"), 0.6)


def unlike() -> World:
    """Return a world like "alike", but where actions differ as much as their noise."""
    reward = np.full([4, 6], 0.4)
    reward[np.arange(4), [0, 2, 4, 5]] = 1.4
    return _explored(World("unlike", *_one_decision(reward), noise="normal"), 0.6)


def _chain() -> World:
    """4 steps, each of which may end the episode early."""
    moves = np.zeros([4, 4, 4])
    for step in range(3):
        moves[step, :, step + 1] = [0.95, 0.8, 0.7, 0.6]
    reward = np.tile([0.3, 0.28, 0.26, 0.24], [4, 1])
    world = World("chain", moves, reward, reward, np.eye(4)[0])
    return _explored(world, 0.2)


def _money() -> World:
    """Few decisions pay, and some of these very much."""
    reward = np.random.default_rng(4).uniform(0.5, 1.5, [3, 4])
    return _explored(World("money", *_one_decision(reward), noise="rare"), 0.2)


def _visits() -> World:
    """About 12 decisions in an episode; weights say little of them."""
    random = np.random.default_rng(5)
    moves = random.dirichlet(np.full(5, 0.5), [5, 3]) * 0.92
    reward = random.uniform(0.1, 0.5, [5, 3])
    return _explored(World("visits", moves, reward, reward, np.full(5, 1 / 5)), 0.1)


def _costs() -> World:
    """A way to a goal in which each step costs about 1."""
    moves = np.zeros([5, 3, 5])
    ahead = np.array([0.8, 0.6, 0.4])
    for cell in range(5):
        moves[cell, :, cell] = 1 - ahead
        if cell < 4:
            moves[cell, :, cell + 1] = ahead
    reward = np.tile([-1.0, -0.95, -0.9], [5, 1])
    world = World("costs", moves, reward, reward, np.eye(5)[0], "normal")
    return _explored(world, 0.15)


def _explored(world: World, share: float) -> World:
    """Return a world whose log is the best policy with a share of random decisions."""
    best = world.best()
    return dataclasses.replace(
        world, logging=(1 - share) * best + share / best.shape[1]
    )


def _one_decision(reward: np.ndarray):
    """Return moves, rewards, a logging policy and starts of single decisions."""
    states, actions = reward.shape
    ends = np.zeros([states, actions, states])
    return ends, reward, reward, np.full(states, 1 / states)


def softmax(x: np.ndarray) -> np.ndarray:
    """Return the softmax of the last axis."""
    found = np.exp(x - x.max(-1, keepdims=True))
    return found / found.sum(-1, keepdims=True)


def _draw(chances: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return a number of each row of chances, int ``[N]``."""
    total = chances.cumsum(1)
    return (random.random([len(chances), 1]) > total / total[:, -1:]).sum(1)
