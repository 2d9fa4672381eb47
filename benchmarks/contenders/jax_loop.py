"""PPO and CartPole as one JAX program, our reference for this approach."""

from typing import Any

from benchmarks.inside import sb3, session
from benchmarks.work.works import Training, last_mean, versions


def load(threads: int = 1) -> None:
    """Import JAX, with one thread or its default of one per core."""
    sb3.choose_jax_threads(threads)
    import benchmarks.inside.jax_ppo  # noqa: F401


class Whole:
    """Training in JAX; a block is one call of the compiled iteration.

    Args:
      work: what to train on.
      threads: number of JAX's threads, as ``load`` set it.
    """

    def __init__(self, work: Training, threads: int = 1):
        from benchmarks.inside import jax_ppo

        self._work = work
        self._reference = jax_ppo.Reference(work)
        self._learner = self._reference.start()
        self._iterations = 0
        self.differs = {"environment": "its physics are JAX, inside the program"}
        self._returns: list[float] = []
        self.own = {"workers": 0, "autoreset": "same step", "threads": threads}
        self.versions = versions("jax", "jaxlib", "optax")
        self._iterate = self._reference.iterate

    @property
    def same(self) -> dict[str, Any]:
        work, reference = self._work, self._reference
        steps = reference.gradient_steps(self._learner) // self._iterations
        (rows,) = {*reference.rows}
        count = reference.parameter_count(self._learner)
        found = work.same(count, steps, rows)
        return found | {"environment": reference.environment}

    @property
    def returns(self) -> float | None:
        return last_mean(self._returns)

    def compile(self) -> int:
        self._iterate = self._reference.iterate.lower(self._learner).compile()
        return 0

    def close(self) -> None:
        pass

    def block(self) -> int:
        self._learner, (total, count) = self._iterate(self._learner)
        # Only the sum of an iteration's returns is known, so all count as their mean.
        if count := int(count):
            self._returns += [float(total) / count] * count
        self._iterations += 1
        return self._work.batch


if __name__ == "__main__":
    session.main(load, Whole, Training)
