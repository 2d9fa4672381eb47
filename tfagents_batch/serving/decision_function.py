"""The function of an export: observations and memory in, decisions out.

Its inputs and outputs have names, roles, shapes and dtypes, see ``DecisionFunction``.
It has no seed: who calls it draws the noise. So the same inputs give the same outputs
in every format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, cast

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import nest, spaces
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Policy
from tfagents_batch.nn.encoder import ACTION_MASK
from tfagents_batch.ops import branches, td
from tfagents_batch.ops.branches import Branches
from tfagents_batch.ops.categorical import Bernoulli, gumbel
from tfagents_batch.serving.description import Array
from tfagents_batch.types import Decision, EnvSpec, Nest, TimeStep

Tensors = Mapping[str, tf.Tensor]


class DecisionFunction:
    """Named inputs and outputs of a policy, and the function between them.

    Args:
      policy: a trained policy.
      spec: spaces of its environments.
      step: environment steps of its training.
      exploration: probability of a decision that is drawn at random: uniformly from the
        possible actions if the policy explores by epsilon, else from the policy. For a
        Box it is 0 or 1. UserError if it is not possible.

    Attributes:
      inputs, outputs: arrays in order.
      actions: the outputs that are an action, one for each part of a Dict or Tuple.
      mask: name of the input that says which actions are possible; None without one.
    """

    def __init__(self, policy: Policy, spec: EnvSpec, step: int, exploration: float):
        self._policy, self._spec, self._exploration = policy, spec, float(exploration)
        self._step = step
        self._check_exploration()
        parts = _arrays(spec.observation_space, "observation")
        self.actions = tuple(_arrays(spec.action_space, "action"))
        self.mask = next((x.name for x in parts if x.path == (ACTION_MASK,)), None)
        memory = nest.flatten(policy.memory(1, exploration > 0))
        self.inputs = tuple(parts)
        if memory:
            self.inputs += (Array("episode_start", "episode_start", (), "bool"),)
            self.inputs += tuple(
                Array(f"state_{i}", "state", tuple(x.shape[1:]), x.dtype.name)
                for i, x in enumerate(memory)
            )
        if exploration:
            self.inputs += (self._noise(),)
        traced = tf.function(self.decide, autograph=False)
        outputs = traced.get_concrete_function(self.specs(batch=2)).structured_outputs
        paths = {x.name: x.path for x in self.actions}
        self.outputs = tuple(
            Array(
                name,
                "action" if name in paths else re.sub(r"_\d+$", "", name),
                tuple(x.shape[1:]),
                x.dtype.name,
                paths.get(name, ()),
            )
            for name, x in outputs.items()
        )

    def specs(self, batch: int | None = None) -> dict[str, tf.TensorSpec]:
        """Return the specs of the inputs by name; None is a batch of any size."""
        return {
            x.name: tf.TensorSpec([batch, *x.shape], tf.as_dtype(x.dtype), x.name)
            for x in self.inputs
        }

    def decide(self, inputs: Tensors) -> dict[str, tf.Tensor]:
        """Return the outputs of inputs ``[N, ...]``, by name."""
        decision = self._decide(inputs)
        action = decision.action
        parts = zip(self.actions, self._inside(action), strict=True)
        outputs = {field.name: part for field, part in parts}
        if self._is_box:
            if decision.log_density is not None:
                # Where an action is clipped, the density is that of the sample.
                outputs |= {"sample": action, "log_density": decision.log_density}
        elif not self._has_parts:
            outputs |= self._explored(decision, inputs.get("noise"))
        outputs |= decision.values
        parts = enumerate(nest.flatten(decision.state))
        return outputs | {f"next_state_{i}": x for i, x in parts}

    def score(self, inputs: Tensors, actions: Tensors) -> tf.Tensor:
        """Return how good a policy finds actions of whole numbers, f32 ``[N]``.

        Two greedy actions with the same score are equally right. ``actions`` are such
        outputs by name; a Box is no part of it.
        """
        decision = self._decide(inputs)
        if "values" in decision.values:
            parts = cast(Branches, branches.of(self._spec.action_space))
            values = parts.rows(decision.values["values"])
            return parts.mean(td.chosen(values, parts.index(actions["action"])))
        random = cast(Any, decision.random)
        pairs = zip(self.actions, getattr(random, "parts", (random,)), strict=True)
        scores = [x.log_prob(actions[k.name]) for k, x in pairs if k.name in actions]
        return tf.add_n(scores)

    # ---- parts

    @property
    def _is_box(self) -> bool:
        return isinstance(self._spec.action_space, gs.Box)

    @property
    def _has_parts(self) -> bool:
        return isinstance(self._spec.action_space, gs.Dict | gs.Tuple)

    def _check_exploration(self) -> None:
        value = self._exploration
        if not 0 <= value <= 1:
            raise UserError(f"exploration is {value}; expected 0 to 1")
        if self._has_parts and value:
            raise UserError(
                f"exploration is {value}, but actions have several parts; expected 0, "
                "the greedy policy"
            )
        if self._is_box and value not in (0, 1):
            raise UserError(
                f"exploration is {value}, but actions are a Box: a mixture of the mode "
                "and samples has no density; expected 0, the mode, or 1, samples"
            )

    def _noise(self) -> Array:
        space = self._spec.action_space
        if isinstance(space, gs.Discrete):
            size = int(space.n)
        elif isinstance(space, gs.MultiDiscrete):
            size = int(np.sum(space.nvec))
        else:
            size = math.prod(space.shape)
        distribution = "normal"
        if not self._is_box:  # one number decides whether the action is random
            size, distribution = 1 + size, "uniform"
        return Array("noise", "noise", (size,), "float32", (), distribution)

    def _decide(self, inputs: Tensors) -> Decision:
        leaves = [inputs[x.name] for x in self.inputs if x.role == "observation"]
        state = tuple(inputs[x.name] for x in self.inputs if x.role == "state")
        rows, explore = nest.size(leaves[0]), self._exploration > 0
        first = inputs.get("episode_start")
        if first is None:
            first = tf.zeros([rows], tf.bool)
        false, reward = tf.zeros([rows], tf.bool), tf.zeros([rows])
        observation = spaces.pack(self._spec.observation_space, leaves)
        step = TimeStep(observation, reward, first, false, false, {})
        memory: Nest = self._policy.memory(rows, explore)
        if state:
            before = tf.nest.pack_sequence_as(memory, state)
            memory = nest.where(first, memory, before)
        noise = inputs.get("noise") if self._is_box else None
        now = tf.constant(self._step, tf.int64)
        return self._policy.decide(step, memory, now, noise)

    def _explored(
        self, decision: Decision, noise: tf.Tensor | None
    ) -> dict[str, tf.Tensor]:
        """Return the action, its probability, and those of all Discrete actions."""
        share, greedy = self._exploration, decision.action
        action = greedy
        if decision.random is None and (share or noise is not None):
            raise UserError(
                "the policy's decisions have no `random` distribution, so it cannot "
                "explore; expected one, see types.Decision"
            )
        random = cast(Any, decision.random)  # not needed without exploration
        if noise is not None:
            kind = _logistic if isinstance(random, Bernoulli) else gumbel
            drawn = random.sample(tf.reshape(kind(noise[:, 1:]), _shape(random)))
            action = nest.where(noise[:, 0] < share, drawn, greedy)
        same = tf.reshape(action == greedy, [-1, math.prod(greedy.shape[1:])])
        same = tf.cast(tf.reduce_all(same, -1), tf.float32)
        propensity = (1 - share) * same
        if share:
            propensity += share * tf.exp(random.log_prob(action))
        outputs = {"action": action, "propensity": propensity}
        space = self._spec.action_space
        if isinstance(space, gs.Discrete):
            probabilities = (1 - share) * tf.one_hot(greedy - int(space.start), space.n)
            if share:
                probabilities += share * random.probabilities()
            outputs["probabilities"] = probabilities
        return outputs

    def _inside(self, action: Nest) -> list[tf.Tensor]:
        """Return the parts of actions, within the bounds of a Box."""
        space = self._spec.action_space
        pairs = zip(spaces.flatten(space, action), spaces.leaves(space), strict=True)
        return [
            tf.clip_by_value(x, leaf.space.low, leaf.space.high)
            if isinstance(leaf.space, gs.Box)
            else x
            for x, leaf in pairs
        ]


def _arrays(space: gymnasium.Space, role: str) -> list[Array]:
    """Return the parts of a space, with names that every format takes.

    They differ in more than the case of letters, which TensorFlow does not tell apart.
    """
    fields: dict[str, Array] = {}
    for leaf in spaces.leaves(space):
        keys = "_".join([role, *map(str, leaf.path)])
        name = re.sub(r"\W", "_", keys, flags=re.ASCII)
        while name.lower() in fields:
            name += "_"
        field = Array(name, role, leaf.shape, leaf.dtype, leaf.path)
        fields[name.lower()] = field
    return list(fields.values())


def _logistic(uniform: tf.Tensor) -> tf.Tensor:
    """Return logistic noise of numbers in [0, 1), without log1p, which ONNX lacks."""
    return -tf.math.log(1 / (uniform + 2.0**-24) - 1)


def _shape(distribution: Any) -> list[int]:
    """Return the shape of a distribution's logits for a batch of any size."""
    return [-1, *distribution.logits.shape[1:]]
