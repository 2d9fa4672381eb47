"""PPO and CartPole's physics as one JAX program.

It shows the speed that is possible without support for ordinary environments.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import optax

from benchmarks.inside import sb3, session
from benchmarks.work.works import Training, versions

GRAVITY, FORCE, SECONDS = 9.8, 10.0, 0.02  # m/s^2, N, s per step
CART, POLE, HALF_LENGTH = 1.0, 0.1, 0.5  # kg, kg, m
FAR, TILTED = 2.4, math.radians(12)  # m, rad: the episode ends beyond either
NEAR = 0.05  # a new episode's state is uniform in (-NEAR, NEAR)
LIMIT = 500  # time limit in steps
ACTIONS = 2  # push to the left, push to the right

Array = jax.Array
Arrays = dict[str, Array]
Tower = list[tuple[Array, Array]]  # kernel and bias of each layer


def push(state: Array, action: Array) -> Array:
    """Return the states after one explicit Euler step, as in Gymnasium's CartPole."""
    _, x_dot, theta, theta_dot = jnp.moveaxis(state, -1, 0)
    total, moment = CART + POLE, POLE * HALF_LENGTH
    sin, cos = jnp.sin(theta), jnp.cos(theta)
    force = jnp.where(action == 1, FORCE, -FORCE)
    acceleration = (force + moment * theta_dot**2 * sin) / total
    inertia = HALF_LENGTH * (4 / 3 - POLE * cos**2 / total)
    theta_dot_dot = (GRAVITY * sin - cos * acceleration) / inertia
    x_dot_dot = acceleration - moment * theta_dot_dot * cos / total
    change = jnp.stack([x_dot, x_dot_dot, theta_dot, theta_dot_dot], -1)
    return state + SECONDS * change


def fresh(key: Array, shape: tuple[int, ...]) -> Array:
    """Return first states of episodes, ``[*shape, 4]``."""
    return jax.random.uniform(key, (*shape, 4), minval=-NEAR, maxval=NEAR)


def step(poles: Arrays, action: Array, restart: Array) -> tuple[Arrays, Arrays]:
    """Step all poles; return them and what the step gave.

    Poles have a "state" ``[B, 4]``, and "age" and "return" ``[B]`` of the episode so
    far. A finished episode restarts in the same step, with the state of ``restart``;
    "next_observation" is before it, and "return" is that of an episode that is "over".
    """
    state, age = push(poles["state"], action), poles["age"] + 1
    total = poles["return"] + 1.0
    terminated = (jnp.abs(state[:, 0]) > FAR) | (jnp.abs(state[:, 2]) > TILTED)
    over = terminated | (age >= LIMIT)
    after = {
        "state": jnp.where(over[:, None], restart, state),
        "age": jnp.where(over, 0, age),
        "return": jnp.where(over, 0.0, total),
    }
    return after, {
        "observation": poles["state"],
        "action": action,
        "reward": jnp.ones_like(total),
        "next_observation": state,
        "terminated": terminated,
        "over": over,
        "return": jnp.where(over, total, 0.0),
    }


def tower(key: Array, sizes: list[int], last_scale: float) -> Tower:
    """Return layers with orthogonal kernels of scale sqrt(2), and ``last_scale``."""
    layers = []
    for i, shape in enumerate(itertools.pairwise(sizes)):
        scale = last_scale if i + 2 == len(sizes) else math.sqrt(2)
        draw = jax.nn.initializers.orthogonal(scale)
        layers.append((draw(jax.random.fold_in(key, i), shape), jnp.zeros(shape[1])))
    return layers


def apply(layers: Tower, x: Array) -> Array:
    """Return ``[..., out]`` of ``[..., in]``, with tanh between the layers."""
    for kernel, bias in layers[:-1]:
        x = jnp.tanh(x @ kernel + bias)
    kernel, bias = layers[-1]
    return x @ kernel + bias


def log_prob(logits: Array, action: Array) -> Array:
    """Return the log-probabilities ``[...]`` of the actions."""
    every = jax.nn.log_softmax(logits)
    return jnp.take_along_axis(every, action[..., None], -1)[..., 0]


def advantages(work: Training, steps: Arrays, value: Array, next_value: Array) -> Array:
    """Return GAE ``[T, B]``; a truncated episode uses the value of its last state."""
    future = jnp.where(steps["terminated"], 0.0, next_value)
    error = steps["reward"] + work.gamma * future - value
    decay = jnp.where(steps["over"], 0.0, work.gamma * work.gae_lambda)

    def add(sum_, now):
        sum_ = now[0] + now[1] * sum_
        return sum_, sum_

    zero = jnp.zeros_like(error[0])
    return jax.lax.scan(add, zero, (error, decay), reverse=True, unroll=8)[1]


def loss(parameters: dict[str, Tower], work: Training, rows: Arrays) -> Array:
    """Return the loss of one minibatch: clipped objective, value error and entropy."""
    logits = apply(parameters["policy"], rows["observation"])
    value = apply(parameters["value"], rows["observation"])[..., 0]
    advantage = rows["advantage"]
    standard = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    ratio = jnp.exp(log_prob(logits, rows["action"]) - rows["log_prob"])
    clipped = jnp.clip(ratio, 1 - work.clip_ratio, 1 + work.clip_ratio)
    objective = jnp.minimum(ratio * standard, clipped * standard).mean()
    value_error = jnp.square(value - rows["target"]).mean()
    every = jax.nn.log_softmax(logits)
    entropy = -(jnp.exp(every) * every).sum(-1).mean()
    return work.value_scale * value_error - objective - work.entropy_scale * entropy


class Loop:
    """Session of PPO on CartPole; a block is one call of the compiled iteration."""

    def __init__(self, work: Training, threads: int = 1):
        # JAX reads it in its first operation, not when it is imported.
        sb3.choose_jax_threads(threads)
        self._work, self._iterations = work, 0
        self.episodes: list[float] = []
        self._traced: set[int] = set()  # numbers of rows of the traced minibatches
        self._optimizer = optax.chain(
            optax.clip_by_global_norm(work.gradient_norm),
            optax.adam(work.learning_rate, eps=work.adam_epsilon),
        )
        key, policy, value, poles = jax.random.split(jax.random.key(work.seed), 4)
        sizes, count = [4, *work.hidden], work.num_envs
        parameters = {
            "policy": tower(policy, [*sizes, ACTIONS], 0.01),
            "value": tower(value, [*sizes, 1], 1.0),
        }
        self._learner = {
            "poles": {
                "state": fresh(poles, (count,)),
                "age": jnp.zeros(count, jnp.int32),
                "return": jnp.zeros(count),
            },
            "parameters": parameters,
            "optimizer": self._optimizer.init(parameters),
            "key": key,
        }
        self._iterate = jax.jit(self._iteration, donate_argnums=0)
        self.differs = {"environment": "its physics are JAX, inside the program"}
        self.own = {"workers": 0, "autoreset": "same step", "threads": threads}
        self.own["device"] = jax.default_backend()
        self.versions = versions("jax", "jaxlib", "optax")

    @property
    def same(self) -> dict[str, Any]:
        count = sum(leaf.size for leaf in jax.tree.leaves(self._learner["parameters"]))
        steps = int(self._learner["optimizer"][1][0].count) // self._iterations
        (rows,) = self._traced
        environment = {"id": "CartPole-v1 in JAX, f32", "time_limit": LIMIT}
        return self._work.same(count, steps, rows) | {"environment": environment}

    def block(self) -> int:
        self._learner, (total, count) = self._iterate(self._learner)
        # Only the sum of an iteration's returns is known, so all count as their mean.
        if count := int(count):
            self.episodes += [float(total) / count] * count
        self._iterations += 1
        return self._work.batch

    def close(self) -> None:
        pass

    def _iteration(self, learner: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """Collect and update; also return the sum and number of finished returns."""
        key, rollout_key, update_key = jax.random.split(learner["key"], 3)
        poles, steps = self._rollout(learner, rollout_key)
        rows = self._rows(learner["parameters"], steps)
        epoch = functools.partial(self._epoch, rows)
        keys = jax.random.split(update_key, self._work.epochs)
        state = learner["parameters"], learner["optimizer"]
        (parameters, optimizer), _ = jax.lax.scan(epoch, state, keys)
        changed = {"poles": poles, "parameters": parameters, "optimizer": optimizer}
        return {**changed, "key": key}, (steps["return"].sum(), steps["over"].sum())

    def _rollout(self, learner: dict[str, Any], key: Array) -> tuple[Arrays, Arrays]:
        # All random numbers are drawn before the loop, in two large arrays.
        noise_key, restart_key = jax.random.split(key)
        shape = (self._work.rollout_length, self._work.num_envs)
        noise = jax.random.gumbel(noise_key, (*shape, ACTIONS))
        policy = learner["parameters"]["policy"]

        def act(poles: Arrays, drawn: tuple[Array, Array]) -> tuple[Arrays, Arrays]:
            noise, restart = drawn
            action = jnp.argmax(apply(policy, poles["state"]) + noise, -1)
            return step(poles, action, restart)

        return jax.lax.scan(act, learner["poles"], (noise, fresh(restart_key, shape)))

    def _rows(self, parameters: dict[str, Tower], steps: Arrays) -> Arrays:
        """Return the rollout as rows ``[T * B, ...]``."""
        value = apply(parameters["value"], steps["observation"])[..., 0]
        next_value = apply(parameters["value"], steps["next_observation"])[..., 0]
        advantage = advantages(self._work, steps, value, next_value)
        logits = apply(parameters["policy"], steps["observation"])
        rows = {
            "observation": steps["observation"],
            "action": steps["action"],
            "log_prob": log_prob(logits, steps["action"]),
            "advantage": advantage,
            "target": advantage + value,
        }
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)

    def _epoch(self, rows: Arrays, state: Any, key: Array) -> tuple[Any, None]:
        order = jax.random.permutation(key, self._work.batch)
        order = order.reshape(-1, self._work.minibatch_size)
        shuffled = jax.tree.map(lambda x: x[order], rows)
        return jax.lax.scan(self._minibatch, state, shuffled)

    def _minibatch(self, state: Any, rows: Arrays) -> tuple[Any, None]:
        self._traced.add(rows["observation"].shape[0])
        parameters, optimizer = state
        gradient = jax.grad(loss)(parameters, self._work, rows)
        change, optimizer = self._optimizer.update(gradient, optimizer, parameters)
        return (optax.apply_updates(parameters, change), optimizer), None


if __name__ == "__main__":
    session.main(Loop)
