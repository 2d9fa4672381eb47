"""Ours: the loop over steps is a compiled program, or a graph of TensorFlow's."""

from benchmarks.inside import graph, session

if __name__ == "__main__":
    session.main(graph.load, graph.Loop)
