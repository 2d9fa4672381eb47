"""Base class of tests that check whether a batched environment is a valid ``Env``.

    class TestMine(EnvContract):
        def make_env(self):
            return make_env("my_package:Mine-v1", num_envs=3)

Run the tests with pytest or unittest. Actions are random, so only states that random
play reaches are tested. An episode must end within ``steps``, better several per row.
"""

from __future__ import annotations

import contextlib
import copy
import unittest
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch import nest, spaces
from tfagents_batch.interfaces import Env
from tfagents_batch.types import EnvSpec, Nest, TimeStep

SEED, OTHER_SEED = 7, 8


class RecordedRollout(NamedTuple):
    """Rollout of random actions, as arrays."""

    steps: Any  # TimeStep of [T+1, B, ...], with arrays instead of tensors
    ok: np.ndarray  # bool [T+1], result of ``env.ok`` after each call


class EnvContract:
    """Base class of tests: define ``make_env``. Each ``test_`` method checks one rule.

    Attributes:
      steps: T, number of actions in a rollout.
      random: whether transitions depend on the seed.
      compilable: whether the environment runs under ``jit_compile=True``.
      tolerance: absolute and relative tolerance between compiled and eager numbers.
    """

    steps = 60
    random = True
    compilable = False
    tolerance = 1e-5

    def make_env(self) -> Env:
        """Return a new environment; it is closed after use if it has ``close``."""
        raise NotImplementedError(f"{type(self).__name__} must define make_env")

    def test_tensors_match_the_spec(self):
        with self._env() as env:
            state, timestep = env.init(SEED)
            _check_spec(env.spec, timestep, "init")
            action = nest.map(tf.constant, random_actions(env.spec, 1, SEED)[0])
            _check_spec(env.spec, env.step(state, action)[1], "step")

    def test_init_starts_an_episode_in_every_row(self):
        with self._env() as env:
            step = _numpy(env.init(SEED)[1])
        _check(step.first, "init returned rows that are not first")
        _check(~(step.terminated | step.truncated), "init returned rows that are last")
        _check(step.reward == 0, "init returned rewards that are not 0")
        for name in ("episode_return", "episode_length"):
            _check(step.info[name] == 0, f"{name} is not 0 after init")

    def test_rows_restart_after_their_last_step_and_only_then(self):
        steps = self._record().steps
        last = steps.terminated | steps.truncated
        _check(last[:-1].any(), "no episode ended; raise `steps`, or shorten episodes")
        _check_same(steps.first[1:], last[:-1], "first is not true exactly after last")
        _check(~(steps.first & last), "rows are both first and last, so they failed")

    def test_rewards_of_first_steps_are_zero(self):
        steps = self._record().steps
        _check(steps.reward[steps.first] == 0, "a first step has a reward")

    def test_actions_of_last_steps_are_ignored(self):
        with self._env() as env:
            expected = rollout(env, self.steps, SEED)
        actions = random_actions(env.spec, self.steps, SEED)
        others = random_actions(env.spec, self.steps, OTHER_SEED)
        last = (expected.steps.terminated | expected.steps.truncated)[:-1]
        mixed = [
            nest.map(lambda x, y, row=row: _where(row, y, x), action, other)
            for action, other, row in zip(actions, others, last, strict=True)
        ]
        with self._env() as env:
            _check_steps(rollout(env, self.steps, SEED, mixed).steps, expected.steps)

    def test_episode_statistics_add_up(self):
        steps = self._record().steps
        return_ = np.zeros(steps.reward.shape[1])
        length = np.zeros(steps.reward.shape[1], np.int64)
        for t, first in enumerate(steps.first):
            return_ = np.where(first, 0.0, return_ + steps.reward[t])
            length = np.where(first, 0, length + 1)
            statistics = steps.info["episode_return"][t]
            np.testing.assert_allclose(statistics, return_, rtol=1e-4, atol=1e-4)
            _check_same(steps.info["episode_length"][t], length, "episode_length")

    def test_the_same_seed_gives_the_same_transitions(self):
        _check_steps(self._record().steps, self._record().steps)

    def test_init_again_repeats_the_transitions(self):
        with self._env() as env:
            steps = rollout(env, self.steps, SEED).steps
            _check_steps(rollout(env, self.steps, SEED).steps, steps)

    def test_another_seed_gives_other_transitions(self):
        if not self.random:
            raise unittest.SkipTest("the environment is deterministic")
        with self._env() as env:
            actions = random_actions(env.spec, self.steps, SEED)
            steps = rollout(env, self.steps, SEED, actions).steps
            other = rollout(env, self.steps, OTHER_SEED, actions).steps
        leaves = zip(nest.flatten(steps), nest.flatten(other), strict=True)
        _check(
            any(not np.array_equal(x, y) for x, y in leaves),
            "two seeds gave equal transitions; set `random = False` if that is right",
        )

    def test_graphs_and_eager_code_agree(self):
        self._compare_with_eager(jit_compile=False, tolerance=0.0)

    def test_compiled_and_eager_code_agree(self):
        if not self.compilable:
            raise unittest.SkipTest("the environment is not marked as compilable")
        self._compare_with_eager(jit_compile=True, tolerance=self.tolerance)

    def test_a_healthy_environment_stays_ok(self):
        _check(self._record().ok, "ok became false without a failure")

    @contextlib.contextmanager
    def _env(self) -> Iterator[Env]:
        env = self.make_env()
        try:
            yield env
        finally:
            getattr(env, "close", lambda: None)()

    def _record(self) -> RecordedRollout:
        with self._env() as env:
            return rollout(env, self.steps, SEED)

    def _compare_with_eager(self, jit_compile: bool, tolerance: float) -> None:
        with self._env() as env:
            expected = rollout(env, self.steps, SEED)
            actions = random_actions(env.spec, self.steps, SEED)
            actions = nest.map(lambda *xs: tf.constant(np.stack(xs)), *actions)
            program = tf.function(_program, jit_compile=jit_compile, autograph=False)
            first, rest, ok = program(env, tf.constant(SEED), actions)
            steps = nest.map(lambda x, xs: np.concatenate([[x], xs]), first, rest)
        _check_steps(steps, expected.steps, tolerance)
        _check(ok.numpy(), "ok is false")


def rollout(
    env: Env, steps: int, seed: int, actions: list[Nest] | None = None
) -> RecordedRollout:
    """Step an environment eagerly.

    Args:
      env: any Env.
      steps: T.
      seed: seed of ``init``, and of the random actions if ``actions`` is None.
      actions: T nests of ``[B, ...]`` arrays; None draws random actions.
    """
    actions = random_actions(env.spec, steps, seed) if actions is None else actions
    state, timestep = env.init(seed)
    records, ok = [_numpy(timestep)], [bool(env.ok(state))]
    for action in actions:
        state, timestep = env.step(state, nest.map(tf.constant, action))
        records.append(_numpy(timestep))
        ok.append(bool(env.ok(state)))
    return RecordedRollout(nest.map(lambda *xs: np.stack(xs), *records), np.array(ok))


def random_actions(spec: EnvSpec, steps: int, seed: int) -> list[Nest]:
    """Draw ``steps`` nests of ``[B, ...]`` actions from the action space."""
    space = copy.deepcopy(spec.action_space)
    space.seed(seed)
    leaves = spaces.leaves(space)

    def batch():
        rows = [spaces.flatten(space, space.sample()) for _ in range(spec.num_envs)]
        columns = zip(leaves, zip(*rows, strict=True), strict=True)
        flat = [np.stack(column).astype(leaf.dtype) for leaf, column in columns]
        return spaces.pack(space, flat)

    return [batch() for _ in range(steps)]


def _program(env: Env, seed: tf.Tensor, actions: Nest):
    """Run a graph loop; return the first step, other steps ``[T, B, ...]`` and ok."""
    steps = nest.flatten(actions)[0].shape[0]
    state, first = env.init(seed)
    flat = nest.flatten(first)
    arrays = [tf.TensorArray(x.dtype, steps, element_shape=x.shape) for x in flat]

    def body(t, state, arrays):
        state, timestep = env.step(state, nest.map(lambda x: x[t], actions))
        written = zip(arrays, nest.flatten(timestep), strict=True)
        return t + 1, state, [array.write(t, x) for array, x in written]

    _, state, arrays = tf.while_loop(lambda t, *_: t < steps, body, [0, state, arrays])
    rest = tf.nest.pack_sequence_as(first, [array.stack() for array in arrays])
    return first, rest, env.ok(state)


def _check_spec(spec: EnvSpec, timestep: TimeStep, where: str) -> None:
    for name, dtype in (("episode_return", "float32"), ("episode_length", "int32")):
        _check(spec.info.get(name) == dtype, f"spec.info[{name!r}] is not {dtype!r}")

    def column(dtype: str) -> Any:
        return tf.TensorSpec([spec.num_envs], tf.as_dtype(dtype))

    expected = TimeStep(
        nest.specs(spec.observation_space, [spec.num_envs]),
        column("float32"),
        *[column("bool")] * 3,
        info={name: column(dtype) for name, dtype in spec.info.items()},
    )
    tf.nest.assert_same_structure(timestep, expected)
    pairs = zip(nest.flatten(timestep), nest.flatten(expected), strict=True)
    for tensor, want in pairs:
        agree = tensor.dtype == want.dtype and tensor.shape == want.shape
        _check(agree, f"{where}: {tensor.dtype} {tensor.shape}; expected {want}")


def _numpy(timestep: TimeStep) -> Any:
    return nest.map(lambda x: x.numpy(), timestep)


def _where(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    shape = [*condition.shape, *[1] * (x.ndim - condition.ndim)]
    return np.where(condition.reshape(shape), x, y)


def _check(condition: Any, message: str) -> None:
    """Check a condition, even with ``python -O``, which removes ``assert``."""
    if not np.all(condition):
        raise AssertionError(message)


def _check_same(x: np.ndarray, y: np.ndarray, message: str) -> None:
    np.testing.assert_array_equal(x, y, err_msg=message)


def _check_steps(x: TimeStep, y: TimeStep, tolerance: float = 0.0) -> None:
    for left, right in zip(nest.flatten(x), nest.flatten(y), strict=True):
        if tolerance and left.dtype.kind == "f":
            np.testing.assert_allclose(left, right, tolerance, tolerance)
        else:
            np.testing.assert_array_equal(left, right)
