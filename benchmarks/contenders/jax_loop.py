"""PPO and CartPole as one JAX program, our reference for this approach."""

from typing import Any

from benchmarks.inside import sb3, session
from benchmarks.work.works import Training


def load(threads: int = 1) -> None:
    """Import JAX, with one thread or its default of one per core."""
    sb3.choose_jax_threads(threads)
    import benchmarks.inside.jax_ppo  # noqa: F401


def start(work: Training, threads: int = 1) -> Any:
    """Return a session."""
    from benchmarks.inside import jax_ppo

    found = jax_ppo.Loop(work)
    found.own["threads"] = threads
    return found


if __name__ == "__main__":
    session.main(load, start, Training)
