"""Trained agent for use in your own loops, outside of any graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import nest, seeds, space_rules, spaces
from tfagents_batch.devices import placement
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import UserError
from tfagents_batch.graph import arrays
from tfagents_batch.interfaces import Policy
from tfagents_batch.training.config import RunConfig
from tfagents_batch.types import EnvSpec, Nest, TimeStep

_EXACT_SIZES = 4  # batch sizes that are not padded


class Agent:
    """Trained agent of a checkpoint; ``tfagents_batch.load`` creates it.

        agent = tfb.load("logs/<run>")
        env = agent.make_env(render_mode="human")
        observation, _ = env.reset()
        state, over = None, False
        while not over:
            action, state = agent.predict(observation, state)
            observation, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated

    Args:
      policy: the trained policy.
      spec: spec of the environments, with the run's wrappers applied.
      recipe: environment that ``make_env`` returns; None if it was not passed again.
      config: config of the run, adapted to the environment that is played.
      step: step of the checkpoint.

    Attributes:
      observation_space, action_space: spaces of one environment with its wrappers.
      config: as above.
      step: environment steps of training.
    """

    def __init__(
        self,
        policy: Policy,
        spec: EnvSpec,
        recipe: EnvRecipe | None,
        config: RunConfig,
        step: int,
    ):
        self.observation_space = spec.observation_space
        self.action_space = spec.action_space
        self.config, self.step = config, step
        self._recipe = recipe
        self._policy = policy
        self._leaves = spaces.leaves(spec.observation_space)
        self._programs: dict[tuple[int, bool], Callable] = {}
        self._sizes: set[int] = set()
        self._calls = 0

    def predict(
        self,
        observation: Any,
        state: Nest | None = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Any, Nest | None]:
        """Select an action for one observation, or one for each of a batch.

        Observations are normalized as in training. Arguments and results are those of
        ``predict`` in Stable-Baselines3, except that ``deterministic`` is the default.
        The first few sizes of batches are traced. Batches of other sizes are padded.

        Args:
          observation: value of ``observation_space``, or a batch with ``[N, ...]``
            leaves.
          state: state returned by the previous call; None at the start of all episodes.
          episode_start: bool, or bool ``[N]``: true where a new episode starts, which
            resets the recurrent state.
          deterministic: True for the policy's mode, False for a sample.

        Returns:
          The action (inside the bounds of a Box), or ``[N, ...]`` actions, and the
          state for the next call: of a recurrent network, and of noise that depends on
          the past; None without both. Actions of a Dict or Tuple are a dict or tuple.

        Raises:
          UserError: if the observation does not fit the space, or the state the
            observations; it names the part.
        """
        flat, size = self._rows(observation)
        batch = 1 if size is None else size
        start = _starts(episode_start, batch)
        padded = self._traced_size(batch)
        wanted = self._policy.initial_state(padded)
        state = wanted if state is None else _padded_state(state, wanted, batch)
        self._calls += 1
        seed = seeds.iteration_seed(self.config.seed, self._calls, "agent/actions")
        flat = [tf.constant(_padded(x, padded)) for x in flat]
        rows = spaces.pack(self.observation_space, flat)
        inputs = rows, tf.constant(_padded(start, padded)), state
        program = self._program(padded, explore=not deterministic)
        with placement.host():
            action, state = program(*inputs, arrays.argument(seed))
        if padded > batch:
            action, state = nest.map(lambda x: x[:batch], (action, state))
        leaves = spaces.leaves(self.action_space)
        parts = zip(spaces.flatten(self.action_space, action), leaves, strict=True)
        found = [_fitted(x.numpy(), leaf.space) for x, leaf in parts]
        found = [x[0] for x in found] if size is None else found
        kept = getattr(self._policy, "remembers", True) and nest.flatten(state)
        return spaces.pack(self.action_space, found), state if kept else None

    def make_env(self, **env_kwargs: Any) -> gymnasium.Env:
        """Return one environment like those of the run, with its wrappers.

        Args:
          **env_kwargs: arguments that are added to those of the run or replace them,
            for example ``render_mode``.

        Raises:
          UserError: if it is written in TensorFlow, was passed as an instance, or was
            your own and not passed to ``load``, as a wrapper or text in its
            ``env_kwargs`` may be.
        """
        if self._recipe is None:
            raise UserError(
                "the environment or a wrapper is your own code, or env_kwargs have "
                "text that could run code, which is only used when you pass it again: "
                "pass env, wrappers or env_kwargs to tfagents_batch.load"
            )
        return self._recipe.constructor(**env_kwargs)()

    def _traced_size(self, batch: int) -> int:
        """Return the number of rows that a batch is padded to.

        Most loops have one size or two, for which padding would be wasted.
        """
        if len(self._sizes) >= _EXACT_SIZES and batch not in self._sizes:
            bits = (batch - 1).bit_length()
            batch = 1 << bits + bits % 2  # a power of four
        self._sizes.add(batch)
        return batch

    def _program(self, size: int, explore: bool) -> Callable:
        """Return the program that selects actions for a number of rows."""
        key = size, explore
        if key not in self._programs:
            choose = functools.partial(self._choose, explore=explore)
            self._programs[key] = tf.function(choose, autograph=False)
        return self._programs[key]

    def _choose(self, observation, start, state, seed, explore: bool):
        """Return actions and the next state of a batch."""
        policy, batch = self._policy, start.shape[0]
        false, reward = tf.zeros([batch], tf.bool), tf.zeros([batch])
        step = TimeStep(observation, reward, start, false, false, {})
        state = nest.where(start, policy.initial_state(batch), state)
        noise = nest.map(lambda x: x[0], policy.noise((1, batch), seed))
        trained = tf.constant(self.step, tf.int64)
        action, _, state = policy.act(step, state, noise, trained, explore)
        return action, state

    def _rows(self, observation: Any) -> tuple[list[np.ndarray], int | None]:
        """Return leaves with a batch axis, and its size (None if there was none)."""
        try:
            parts = spaces.flatten(self.observation_space, observation)
        except (KeyError, IndexError, TypeError) as error:
            raise UserError(
                f"the observation does not have the structure of "
                f"{self.observation_space}: "
                f"{type(error).__name__}: {error}"
            ) from error
        rows, sizes = [], set()
        for leaf, part in zip(self._leaves, parts, strict=True):
            array = np.asarray(part)
            is_batch = array.ndim > len(leaf.shape)
            _refuse_flaws(array, leaf, is_batch)
            sizes.add(array.shape[0] if is_batch else None)
            rows.append(array.astype(leaf.dtype).reshape(-1, *leaf.shape))
        if len(sizes) != 1:
            raise UserError(
                "parts of the observation have different batch sizes: "
                f"{sorted(map(str, sizes))}"
            )
        if sizes == {0}:
            raise UserError("there is no observation in the batch; pass at least one")
        return rows, sizes.pop()


def _refuse_flaws(array: np.ndarray, leaf: spaces.Leaf, is_batch: bool) -> None:
    """Refuse an observation that does not fit, or a batch of them."""
    where, flaw = f"observation {leaf.name}", None
    if array.dtype.kind in "biuf":
        flaw = next(space_rules.flaws(array, leaf, axes=int(is_batch)), None)
        if flaw is None:
            return
    if flaw and flaw.kind == space_rules.FIT:
        raise UserError(
            f"{where} is {array.dtype} with values that {leaf.dtype} cannot represent; "
            "pass it as the environment returns it"
        )
    if flaw and flaw.kind == space_rules.FINITE:  # no network could choose an action
        row = flaw.place[0] if is_batch else 0
        raise UserError(
            f"{where} has NaN or infinity in row {row}; expected finite numbers, as in "
            "training; check where it comes from"
        )
    raise UserError(
        f"{where} is {array.dtype} {list(array.shape)}; expected {leaf.dtype} "
        f"{list(leaf.shape)}, or a batch of that"
    )


def _fitted(action: np.ndarray, space: gymnasium.Space) -> np.ndarray:
    """Return actions ``[N, ...]`` with the dtype and the bounds of their space."""
    if isinstance(space, gs.Box):
        action = np.clip(action, space.low, space.high)
    return action.astype(space.dtype)


def _starts(episode_start: Any, batch: int) -> np.ndarray:
    """Return where episodes start, bool ``[batch]``."""
    start = np.asarray(False if episode_start is None else episode_start, bool)
    if start.shape not in ((), (1,), (batch,)):
        raise UserError(
            f"episode_start has {start.size} entries of shape {list(start.shape)}; "
            f"expected one bool, or one for each of the {batch} observations"
        )
    return np.broadcast_to(start, (batch,))


def _padded(rows: np.ndarray, size: int) -> np.ndarray:
    """Repeat the last row until there are ``size`` rows."""
    missing = size - len(rows)
    return np.concatenate([rows, np.repeat(rows[-1:], missing, 0)]) if missing else rows


def _padded_state(state: Nest, like: Nest, batch: int) -> Nest:
    """Return a user's state with as many rows as ``like``; refuse any other state."""
    try:
        tf.nest.assert_same_structure(state, like)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"the state has the structure {tf.nest.map_structure(_shape, state)}; "
            f"expected {tf.nest.map_structure(_shape, like)}: what the call before "
            "returned, or None at the start of all episodes"
        ) from error

    def pad(x, wanted):
        x, shape = np.asarray(x), (batch, *wanted.shape[1:])
        if x.shape != shape:
            rows = f"{x.shape[0]} rows" if x.ndim else "no rows"
            raise UserError(
                f"the state has a part of {rows}, {x.dtype} {list(x.shape)}, but there "
                f"{'is 1 observation' if batch == 1 else f'are {batch} observations'}; "
                f"expected {wanted.dtype.name} {list(shape)}, as returned by the call "
                "before for the same environments, or None at the start"
            )
        return _padded(x.astype(wanted.dtype.as_numpy_dtype), len(wanted))

    return nest.map(pad, state, like)


def _shape(x: Any) -> list[int]:
    return list(np.shape(x))
