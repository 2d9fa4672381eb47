"""Recurrent cells and towers, and fast forward and backward passes through time.

The inputs' part of the gates does not depend on the state: a cell's ``call`` computes
it for all steps in one product. Only a cell's ``step`` runs in a loop. The backward
pass works alike. Gates are computed again for all steps at once (``recall``), and the
loop carries only the gradient of the state (``back``). The gradient of the kernels is
one product, where TensorFlow's loops would add up one product per step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.graph import arrays
from tfagents_batch.graph.function import custom_gradient
from tfagents_batch.nn.layers import blocks, kernels
from tfagents_batch.types import Nest

ValueCore = Literal["own", "shared", "none"]


class Cell(keras.layers.Layer):
    """Common base of the cells; ``units`` is the size of the state."""

    def __init__(self, units: int, initializer: kernels.Kind = "orthogonal", **kwargs):
        super().__init__(dtype="float32", **kwargs)
        self.units = int(units)
        self._initializer = initializer

    def _rows(self, kernel) -> list[tf.Tensor]:
        """Split a kernel into the rows of the inputs and those of the state."""
        kernel = tf.convert_to_tensor(kernel)
        inputs = nest.static_size(kernel) - self.units
        return tf.split(kernel, [inputs, self.units], axis=0)


class GRU(Cell):
    """Gated recurrent unit (Cho et al. 2014, arXiv:1406.1078, eq. 5 to 8).

    The reset is applied before the product with the kernel:

    - r, u = sigmoid([x, h] W + b),
    - c = tanh([x, r h] W_c + b_c),
    - h' = u h + (1 - u) c.

    Initially b is 1 and b_c is 0. State and output are h, f32 ``[B, units]``.
    """

    def build(self, input_shape):
        inputs, units = int(input_shape[-1]), self.units
        self.gates, self.candidate = (
            self.add_weight(
                shape=(inputs + units, outputs * units),
                initializer=kernels.recurrent(self._initializer, inputs),
                name=name,
            )
            for name, outputs in (("gates", 2), ("candidate", 1))
        )
        self.gates_bias = self.add_weight(
            shape=(2 * units,), initializer="ones", name="gates_bias"
        )
        self.candidate_bias = self.add_weight(
            shape=(units,), initializer="zeros", name="candidate_bias"
        )

    def call(self, x):
        """Return the pre-activations of inputs, ``[N, F]`` to ``[N, 3 units]``."""
        parts = [self._rows(kernel)[0] for kernel in (self.gates, self.candidate)]
        bias = tf.concat([self.gates_bias, self.candidate_bias], 0)
        return x @ tf.concat(parts, 1) + bias

    def initial_state(self, batch: int) -> tf.Tensor:
        return arrays.zeros([batch, self.units])

    def state_kernels(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the kernels' rows that multiply the state."""
        return self._rows(self.gates)[1], self._rows(self.candidate)[1]

    def step(self, weights, inputs: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """Return the next state; ``inputs`` are pre-activations from ``call``."""
        _, update, new = self._gates(weights, inputs, state)
        return update * state + (1 - update) * new

    def recall(self, weights, inputs, before, after):
        """Recompute the values of steps ``[N, ...]`` that ``back`` needs."""
        return *self._gates(weights, inputs, before), before

    def back(self, weights, recalled, gradient):
        """Return the gradients of a step's inputs and of the state before it.

        ``gradient`` is that of the state after the step; see ``recall``.
        """
        reset, update, new, state = recalled
        gates, candidate = weights
        to_new = gradient * (1 - update) * (1 - tf.square(new))
        to_product = tf.matmul(to_new, candidate, transpose_b=True)
        to_update = gradient * (state - new) * update * (1 - update)
        to_reset = to_product * state * reset * (1 - reset)
        to_gates = tf.concat([to_reset, to_update], -1)
        before = gradient * update + to_product * reset
        before += tf.matmul(to_gates, gates, transpose_b=True)
        return tf.concat([to_gates, to_new], -1), before

    def kernel_gradients(self, recalled, to_inputs):
        """Return the gradients of ``state_kernels``, summed over steps ``[N, ...]``."""
        reset, _, _, state = recalled
        to_gates, to_new = self._split(to_inputs)
        return (
            tf.matmul(state, to_gates, transpose_a=True),
            tf.matmul(reset * state, to_new, transpose_a=True),
        )

    def _gates(self, weights, inputs, state):
        gates, candidate = weights
        to_gates, to_new = self._split(inputs)
        both = tf.sigmoid(to_gates + state @ gates)
        reset, update = tf.split(both, 2, axis=-1)
        return reset, update, tf.tanh(to_new + (reset * state) @ candidate)

    def _split(self, inputs):
        return tf.split(inputs, [2 * self.units, self.units], axis=-1)


class LSTM(Cell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997; Gers et al. 2000).

    - i, f, o = sigmoid([x, h] W + b), g = tanh([x, h] W_g + b_g),
    - c' = f c + i g,
    - h' = o tanh(c').

    Initially the bias of f is 1 and the others are 0 (Jozefowicz et al. 2015). The
    state is the pair (h, c), f32 ``[B, units]`` each, and the output is h. ``GRU``
    documents the methods.
    """

    def build(self, input_shape):
        inputs, units = int(input_shape[-1]), self.units

        def forget(shape, dtype=None):
            return tf.repeat(tf.constant([0.0, 1.0, 0.0, 0.0], dtype), units)

        self.gates = self.add_weight(
            shape=(inputs + units, 4 * units),
            initializer=kernels.recurrent(self._initializer, inputs),
            name="gates",
        )
        self.bias = self.add_weight(shape=(4 * units,), initializer=forget, name="bias")

    def call(self, x):
        """Return the pre-activations of inputs, ``[N, F]`` to ``[N, 4 units]``."""
        return x @ self._rows(self.gates)[0] + self.bias

    def initial_state(self, batch: int) -> tuple[tf.Tensor, tf.Tensor]:
        zeros = arrays.zeros([batch, self.units])
        return zeros, zeros

    def state_kernels(self) -> tuple[tf.Tensor]:
        return (self._rows(self.gates)[1],)

    def step(self, weights, inputs, state):
        enter, forget, leave, new = self._gates(weights, inputs, state)
        cell = forget * state[1] + enter * new
        return leave * tf.tanh(cell), cell

    def recall(self, weights, inputs, before, after):
        return *self._gates(weights, inputs, before), *before, tf.tanh(after[1])

    def back(self, weights, recalled, gradient):
        enter, forget, leave, new, _, cell, after = recalled
        to_hidden, to_cell = gradient
        to_cell += to_hidden * leave * (1 - tf.square(after))
        to_inputs = tf.concat(
            [
                to_cell * new * enter * (1 - enter),
                to_cell * cell * forget * (1 - forget),
                to_hidden * after * leave * (1 - leave),
                to_cell * enter * (1 - tf.square(new)),
            ],
            -1,
        )
        to_hidden = tf.matmul(to_inputs, weights[0], transpose_b=True)
        return to_inputs, (to_hidden, to_cell * forget)

    def kernel_gradients(self, recalled, to_inputs):
        return (tf.matmul(recalled[4], to_inputs, transpose_a=True),)

    def _gates(self, weights, inputs, state):
        sums = inputs + state[0] @ weights[0]
        gates, new = tf.split(sums, [3 * self.units, self.units], axis=-1)
        return *tf.split(tf.sigmoid(gates), 3, axis=-1), tf.tanh(new)


CELLS = {"gru": GRU, "lstm": LSTM}
Cells = Sequence[GRU | LSTM]


def initial_state(cells: Cells, batch: int) -> tuple[Nest, ...]:
    """Return the initial state of every cell for ``batch`` rows."""
    return tuple(cell.initial_state(batch) for cell in cells)


def step(
    cells: Cells,
    inputs: Sequence[tf.Tensor],
    first: tf.Tensor,
    states: tuple[Nest, ...],
) -> tuple[tuple[tf.Tensor, ...], tuple[Nest, ...]]:
    """Advance several cells by one step; return outputs ``[B, units]`` and states.

    Args:
      cells: the cells.
      inputs: each cell's pre-activations from ``call``, ``[B, n]``.
      first: bool ``[B]``, true where an episode starts: the state is reset first.
      states: each cell's state.
    """
    states = nest.where(first, initial_state(cells, nest.size(first)), tuple(states))
    weights = [cell.state_kernels() for cell in cells]
    states = _each("step", cells, weights, inputs, states)
    return _outputs(states), states


def unroll(
    cells: Cells,
    inputs: Sequence[tf.Tensor],
    first: tf.Tensor,
    states: tuple[Nest, ...],
) -> tuple[tuple[tf.Tensor, ...], tuple[Nest, ...]]:
    """Advance several cells by T steps in one loop; has first-order gradients only.

    Arguments are those of ``step`` with a leading axis T; states are from before the
    first step.

    Returns:
      Outputs ``[T, B, units]`` of each cell, and the states after the last step.
    """
    weights = tuple(cell.state_kernels() for cell in cells)
    arguments = tuple(inputs), tuple(states), weights

    @custom_gradient
    def run(*flat):
        inputs, states, weights = tf.nest.pack_sequence_as(arguments, flat)
        through = _forwards(cells, weights, inputs, first, states)

        def gradient(*upstream):
            to_all = tf.nest.pack_sequence_as(through, upstream)
            parts = weights, inputs, first, states, through, to_all
            return nest.flatten(_backwards(cells, *parts))

        return nest.flatten(through), gradient

    through = tf.nest.pack_sequence_as(states, run(*nest.flatten(arguments)))
    return _outputs(through), nest.map(lambda x: x[-1], through)


def _forwards(cells: Cells, weights, inputs, first, states) -> tuple[Nest, ...]:
    """Return the states ``[T, B, ...]`` after every step."""
    time = first.shape[0]
    initial = initial_state(cells, first.shape[1])

    def body(t, states, written):
        states = nest.where(first[t], initial, states)
        now = [x[t] for x in inputs]
        states = _each("step", cells, weights, now, states)
        return t + 1, states, arrays.write(written, t, states)

    _, _, written = tf.while_loop(
        lambda t, *_: t < time,
        body,
        (tf.constant(0), states, arrays.empty(time, states)),
        parallel_iterations=1,
        name="unroll",
    )
    return arrays.stack(written)


def _backwards(cells: Cells, weights, inputs, first, states, through, to_through):
    """Return the gradients of inputs, of the initial states and of the weights."""
    time, batch = first.shape
    before = nest.map(lambda s, x: tf.concat([s[None], x[:-1]], 0), states, through)
    before = nest.where(first, nest.map(tf.zeros_like, before), before)
    recalled = _each("recall", cells, weights, *nest.fold((inputs, before, through)))
    by_time = nest.unfold(recalled, time, batch)

    def body(t, gradients, written):
        t = t - 1
        now, direct = nest.map(lambda x: x[t], (by_time, to_through))
        gradients = nest.map(tf.add, gradients, direct)
        pairs = _each("back", cells, weights, now, gradients)
        to_inputs, gradients = zip(*pairs, strict=True)
        zeros = nest.map(tf.zeros_like, gradients)
        gradients = nest.where(first[t], zeros, gradients)
        return t, gradients, arrays.write(written, t, to_inputs)

    zeros = nest.map(tf.zeros_like, states)
    empty = arrays.empty(time, nest.map(lambda x: x[0], inputs))
    _, to_states, written = tf.while_loop(
        lambda t, *_: t > 0,
        body,
        (tf.constant(time), zeros, empty),
        parallel_iterations=1,
        name="unroll_gradient",
    )
    to_inputs = arrays.stack(written)
    to_weights = _each("kernel_gradients", cells, recalled, nest.fold(to_inputs))
    return to_inputs, to_states, to_weights


def _each(method: str, cells: Cells, *arguments) -> tuple:
    """Call a method of every cell with the cell's arguments."""
    rows = zip(cells, *arguments, strict=True)
    return tuple(getattr(cell, method)(*its) for cell, *its in rows)


def _outputs(states: tuple[Nest, ...]) -> tuple[tf.Tensor, ...]:
    return tuple(nest.flatten(state)[0] for state in states)


class RecurrentTowers(keras.layers.Layer):
    """Towers with a recurrent core as their last hidden layer.

    The value has its own core, shares the policy's ("shared": all layers but the heads
    are shared), or has no core ("none": its tower is feed-forward with the same sizes).
    The last hidden layer is the core's. For the arguments see ``blocks.Towers``.

    The state is a tuple: the state of the policy's core and, with "own", of the
    value's.
    """

    def __init__(
        self,
        encoder,
        hidden: tuple[int, ...],
        activation: str,
        size: int,
        core: str,
        value_core: ValueCore,
        initializer: kernels.Kind = "orthogonal",
        policy_scale: float = blocks.POLICY_SCALE,
        mean: blocks.Mean = "linear",
        features: bool = False,
        value_encoder=None,
    ):
        super().__init__(name="towers", dtype="float32")
        self.encoder, self.mean, self.features = encoder, mean, features
        self.value_encoder = value_encoder
        *before, units = hidden
        cell, kind = CELLS[core], (activation, initializer)
        tower = "shared" if value_core == "shared" else "policy"
        self.policy_tower = blocks.mlp(before, *kind, f"{tower}_tower")
        self.cores = [cell(units, initializer, name=f"{tower}_core")]
        self.value_tower = None
        if value_core != "shared":
            sizes = before if value_core == "own" else hidden
            self.value_tower = blocks.mlp(sizes, *kind, "value_tower")
        if value_core == "own":
            self.cores.append(cell(units, initializer, name="value_core"))
        heads = blocks.heads(size, initializer, policy_scale)
        self.policy_head, self.value_head = heads

    def initial_state(self, batch: int, value: bool = True) -> Nest:
        return initial_state(self.cores if value else self.cores[:1], batch)

    def step(
        self, observation: Nest, first: tf.Tensor, state: Nest, value: bool = True
    ):
        """Return the outputs of one step ``[B, ...]``, and the next state.

        Without ``value``, neither has a part for the value.
        """
        features = blocks.encoded(self, observation, value)
        inputs = self._inputs(features)
        outputs, state = step(self.cores[: len(inputs)], inputs, first, state)
        return self._heads(features, outputs), state

    def unroll(self, observation: Nest, first: tf.Tensor, state: Nest):
        """Return outputs of steps ``[T, B, ...]``, and the state after all steps."""
        time, batch = first.shape
        features = blocks.encoded(self, nest.fold(observation), True)
        inputs = nest.unfold(self._inputs(features), time, batch)
        outputs, state = unroll(self.cores, inputs, first, state)
        heads = self._heads(features, nest.fold(outputs))
        return nest.unfold(heads, time, batch), state

    def _inputs(self, features: list[tf.Tensor]) -> list[tf.Tensor]:
        """Return each core's pre-activations of its inputs, ``[N, n]``."""
        towers = [self.policy_tower, self.value_tower]
        parts = zip(self.cores, towers, features, strict=False)
        return [core(tower(x)) for core, tower, x in parts]

    def _heads(self, features: list[tf.Tensor], outputs) -> dict[str, tf.Tensor]:
        """Return policy and value from the cores' outputs, ``[N, units]`` each."""
        value = outputs[-1]  # the output of the value's own or of the shared core
        wanted = len(features) > 1
        if wanted and self.value_tower is not None and len(self.cores) == 1:
            value = self.value_tower(features[1])
        policy = self.policy_head(outputs[0])
        value = self.value_head(value) if wanted else None
        inputs = outputs[0] if self.features else None
        return blocks.outputs(policy, value, self.mean, inputs)
