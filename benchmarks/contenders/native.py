"""Ours, native route: the loop over steps is one compiled program."""

from benchmarks import graph, session


def start(work):
    return graph.Loop(work, route="native")


if __name__ == "__main__":
    session.main(graph.load, start)
