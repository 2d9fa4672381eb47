"""Ours, where XLA compiles the update and TensorFlow's graph collects."""

from benchmarks import graph, session
from benchmarks.contenders import ppo_ours
from benchmarks.training import Training


def start(work):
    return ppo_ours.start(work, compile="update")


if __name__ == "__main__":
    session.main(graph.load, start, Training)
