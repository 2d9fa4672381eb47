"""Gymnasium's AsyncVectorEnv, of which no more run at a time than there are cores."""

from benchmarks import machine, session
from benchmarks.contenders import gymnasium_async


def start(work):
    return gymnasium_async.start(work, max_concurrency=machine.cores())


if __name__ == "__main__":
    session.main(gymnasium_async.load, start)
