"""PPO and CartPole as one JAX program, in as many threads as there are cores."""

from benchmarks import machine, session
from benchmarks.contenders import ppo_jax
from benchmarks.training import Training


def load():
    import benchmarks.jax_ppo  # noqa: F401


def start(work):
    return ppo_jax.Whole(work, threads=machine.cores())


if __name__ == "__main__":
    session.main(load, start, Training)
