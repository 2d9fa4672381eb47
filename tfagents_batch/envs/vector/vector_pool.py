"""A batch that exists already as NumPy arrays: what ``Pool`` is for single ones."""

from __future__ import annotations

import weakref
from collections.abc import Mapping

from tfagents_batch import spaces
from tfagents_batch.envs import arguments, batch, layout, live, stepper
from tfagents_batch.envs.portable import Portable
from tfagents_batch.envs.vector.vector_crew import Steppable, VectorCrew
from tfagents_batch.errors import UserError


class VectorPool:
    """Environments that are stepped in this process as one.

    ``reset`` and ``step`` always return; ``check`` raises what happened.

    Args:
      environments: the batch; closed with the pool.
      on_fault: "raise" fails the whole batch after a fault.
      finite_check: "raise" makes NaN and infinity in observations and rewards a
        fault; "off" passes them on.
      info_keys: ``{key: dtype}`` of numbers to copy from the infos; float32, int32 or
        bool. A missing one is NaN, 0 or false.

    Attributes:
      num_envs: B.
      observation_space, action_space: of one environment.
      info: ``{column: dtype}``.
      max_episode_steps: the time limit, None if unknown.
      engine: steps them.
      num_workers, handle: 0 and None, as for a pool in this process.

    Raises:
      UserError: if an argument or a space is wrong.
    """

    num_workers = 0
    handle = None

    def __init__(
        self,
        environments: Steppable,
        *,
        on_fault: str = "raise",
        finite_check: str = stepper.RAISE,
        info_keys: Mapping[str, str] | None = None,
    ):
        if on_fault == "restart":
            raise UserError(
                "on_fault is 'restart', but a batch that exists already cannot be "
                "replaced; use on_fault='raise', or environments in worker processes"
            )
        arguments.one_of("on_fault", on_fault, ("raise",))
        arguments.one_of("finite_check", finite_check, (stepper.RAISE, stepper.OFF))
        self.info = {**layout.STATISTICS, **arguments.info_columns(info_keys)}
        self.num_envs = environments.num_envs
        self.observation_space = environments.observation_space
        self.action_space = environments.action_space
        self.max_episode_steps = environments.max_episode_steps
        plan = layout.make_layout(
            spaces.leaves(self.observation_space),
            spaces.leaves(self.action_space),
            self.info,
            self.num_envs,
            1,
        )
        memory = bytearray(plan.size)
        self._crew = VectorCrew(environments, layout.views(plan, memory), finite_check)
        self.engine = Portable(
            self._crew, memory, plan, self.action_space, self.info, (None, None)
        )
        self._reported: dict[str, float] = {}
        self._finalizer = weakref.finalize(self, self._crew.close)
        live.POOLS.add(self)

    @property
    def ok(self) -> bool:
        """False after a fault, a stop or ``close``."""
        return self.engine.ok

    def check(self) -> None:
        """Raise what went wrong, once; the environments are closed then.

        Raises:
          EnvError, UserError: a fault; also the use of a pool that is closed.
          Stopped: after ``stop``.
        """
        batch.check(self.engine, self._crew, self.close)

    def take_fault(self) -> BaseException | None:
        """The recorded fault, if it was not yet taken; the pool is over then."""
        return batch.take_fault(self.engine)

    def stop(self) -> None:
        """Make all later steps return at once; one under way runs to its end."""
        self._crew.stop()

    def close(self) -> None:
        """Close the environments; idempotent."""
        live.POOLS.discard(self)
        self.engine.end("pool is closed")
        self._finalizer()
        self.engine.release()

    def metrics(self) -> dict[str, float]:
        """Counters since the last call."""
        counters = self.engine.counters()
        counters |= {"outside": self._crew.outside, "unused": self._crew.unused}
        new = {key: x - self._reported.get(key, 0) for key, x in counters.items()}
        self._reported = counters
        return {
            "env/action_clipped_fraction": new["clipped"] / max(new["total"], 1),
            "env/observation_out_of_bounds": float(new["outside"]),
            "env/unused_steps": float(new["unused"]),
            "time/env_step_ms": 1000 * new["seconds"] / max(new["steps"], 1),
        }
