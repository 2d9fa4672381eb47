"""Ours, portable route: the loop over steps is a TensorFlow graph."""

from benchmarks import graph, session


def start(work):
    return graph.Loop(work, route="portable")


if __name__ == "__main__":
    session.main(graph.load, start)
