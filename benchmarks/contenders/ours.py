"""Our environments: the loop over steps is a compiled program or a TensorFlow graph."""

from benchmarks.inside import graph, session

if __name__ == "__main__":
    session.main(graph.load, graph.Loop)
