"""SBX's PPO, in as many threads of JAX as there are cores."""

from benchmarks import machine, session
from benchmarks.contenders import ppo_sbx
from benchmarks.training import Training


def load():
    import sbx  # noqa: F401


def start(work):
    return ppo_sbx.start(work, threads=machine.cores())


if __name__ == "__main__":
    session.main(load, start, Training)
