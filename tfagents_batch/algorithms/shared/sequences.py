"""Windows of steps for networks with memory, as in R2D2 (Kapturowski et al. 2019).

A window begins with the recurrent state that the acting policy had, or with zeros. Its
first ``burn_in`` steps only build the state of every network, without a gradient; each
step after them begins a transition of n rewards. Restarts reset the state, inside of
windows as in acting, and so does a break of collecting. Without a core, a window is one
transition.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.nn import recurrent_encoder
from tfagents_batch.nn.critics import Critics
from tfagents_batch.ops import windows
from tfagents_batch.types import TimeStep, Trajectory

_ETA = 0.9  # share of the largest error in the priority of a window, as in R2D2


def check_core(config: Any, **usual: Any) -> None:
    """Refuse settings of memory, named with their usual values, without a core."""
    for name, value in usual.items():
        if config.network.core == "none" and getattr(config, name) != value:
            raise UserError(
                f"{name} is {getattr(config, name)}, but the network has no memory; "
                f"leave {name} out, or set network.core to gru or lstm"
            )


class Sequences:
    """Windows ``[T, N, ...]`` of an update, and their transitions.

    The critics' states are not stored, because critics do not act: they begin with
    zeros.

    Args:
      config: ``off_policy.OffPolicySettings``.
      trajectory: the windows, normalized. Their ``state`` is that of the acting policy
        before the first step, or ``()`` for zeros.

    Attributes:
      trajectory: windows of one transition each, ``[n + 1, M, ...]`` or longer if
        ``T`` is. Row ``i N + j`` begins at the i-th step that is learned from, in
        window j: M = N times the number of these steps.
    """

    def __init__(self, config: Any, trajectory: Trajectory):
        steps = trajectory.steps._replace(info={})
        self._windows = trajectory._replace(steps=steps)
        self._burn_in, self._learned = config.burned, config.learned
        self.trajectory = self._windows
        if config.network.core != "none":
            self.trajectory = windows.parts(
                self._windows, config.burned, config.learned
            )

    def steps(self, network: Any, rows: int) -> TimeStep:
        """Return the first ``rows`` steps of transitions, ``[rows, M, ...]``.

        They are as the network remembers them, see ``RecurrentEncoder``.
        """
        encoder, state = recurrent_encoder.of(network), self._windows.state
        if encoder is None:
            return nest.map(lambda x: x[:rows], self.trajectory.steps)
        end = self._burn_in + self._learned + rows - 1
        before, after = (
            nest.map(lambda x, part=part: x[part], self._windows.steps)
            for part in (slice(self._burn_in), slice(self._burn_in, end))
        )
        if not state or isinstance(network, Critics):
            state = encoder.initial_state(nest.static_size(after.first, 1))
        if self._burn_in:
            _, state = encoder.unroll(before, state)
            state = nest.map(tf.stop_gradient, state)
        return windows.shifted(encoder.unroll(after, state)[0], 0, self._learned)

    def now(self, batch: windows.Transition, network: Any) -> TimeStep:
        """Return the first steps of transitions, as the network remembers them."""
        if recurrent_encoder.of(network) is None:
            return batch.step
        return nest.map(lambda x: x[0], self.steps(network, 1))

    def then(self, batch: windows.Transition, network: Any) -> TimeStep:
        """Return the last steps of transitions, as the network remembers them."""
        if recurrent_encoder.of(network) is None:
            return batch.next
        rows = nest.static_size(self.trajectory.steps.first)
        return windows.row(self.steps(network, rows), batch.length, rows - 1)

    def priority(self, error: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Return the priorities of windows, f32 ``[N]``.

        ``error``, f32 ``[M]``, are errors of transitions, 0 where ``mask`` is false.
        Those of a window count by eta max + (1 - eta) mean (R2D2, section 2.3).
        """
        if self._learned == 1:
            return error
        error = tf.reshape(error, [self._learned, -1])
        count = tf.cast(tf.reshape(mask, error.shape), tf.float32)
        mean = tf.math.divide_no_nan(tf.reduce_sum(error, 0), tf.reduce_sum(count, 0))
        return _ETA * tf.reduce_max(error, 0) + (1 - _ETA) * mean
