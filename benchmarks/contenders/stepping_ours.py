"""Our environments in a ``tf.while_loop``."""

from __future__ import annotations

from typing import Any

from benchmarks.inside import session, trained
from benchmarks.work.works import Stepping, versions


class Loop:
    """Blocks of steps, each one program; the native backend compiles it with XLA.

    With ``batched`` it counts steps of the whole batch, instead of its transitions.
    """

    def __init__(
        self, work: Stepping, backend: str, device: str = "cpu", batched: bool = False
    ):
        import tensorflow as tf

        import tfagents_batch as tfb
        from tfagents_batch.devices import placement
        from tfagents_batch.envs import registry

        where = placement.GPU if device == "gpu" else placement.CPU
        self._placement = placement.Placement(where, where)
        self._gpu = placement.GPU.removeprefix("/")
        placement.claim(self._placement)
        actions = work.actions()
        constructor = registry.constructor(work.env, work.env_kwargs)
        self.same = work.same(actions, constructor)
        self.versions = versions("tensorflow", "keras")
        kind = tf.int32 if actions.dtype.kind == "i" else tf.float32
        self._actions = tf.constant(actions, kind)
        env = tfb.make_env(
            work.env,
            work.num_envs,
            work.num_workers,
            env_kwargs=work.env_kwargs,
            backend=backend,
        )
        self.own = {
            "workers": env.num_workers,
            "autoreset": "next step",
            "route": env.backend,
        }
        self._batch_steps = work.block if batched else None
        self._play = tfb.function(
            _program(env, work.block), jit_compile=backend == "native"
        )
        state, timestep = env.init(work.seed)
        self._carry = (state, timestep.observation, tf.zeros([work.num_envs]))
        self.close = env.close

    def block(self) -> int:
        with self._placement.collecting():
            self._carry, transitions = self._play(self._carry, self._actions)
        # Without a GPU, TensorFlow runs the program on the CPU and does not say so.
        on_gpu = self._carry[1].device.endswith(self._gpu)
        self.own["device"] = "gpu" if on_gpu else "cpu"
        transitions = int(transitions)  # waits until the program has ended
        return self._batch_steps or transitions


def _program(env: Any, block: int) -> Any:
    """Return a function of what a rollout would read, and actions, for one block."""
    import tensorflow as tf

    def body(t, state, observation, total, count, actions):
        state, step = env.step(state, actions[t])
        real = step.valid & ~step.first
        count += tf.reduce_sum(tf.cast(real, tf.int32))
        return t + 1, state, step.observation, total + step.reward, count, actions

    def play(carry, actions):
        start = (tf.constant(0), *carry, tf.constant(0), actions)
        _, *carry, count, _ = tf.while_loop(lambda t, *_: t < block, body, start)
        return tuple(carry), count

    return play


start = Loop

if __name__ == "__main__":
    session.main(start, *trained.PACKAGES)
