"""Training of several seeds of an experiment at once, as one compiled program.

Other code needs only the function below. Networks and algorithms that support it use
the loops and branches of ``graph.loops`` around assignments.
"""

from tfagents_batch.training.seeds.running import run_seeds

__all__ = ["run_seeds"]
