"""Several seeds of an experiment trained at once, as one compiled program.

This function is all that other code needs of it. Networks and algorithms that can be
trained so have loops and branches of ``ops.carried`` around what they assign.
"""

from tfagents_batch.training.seeds.running import run_seeds

__all__ = ["run_seeds"]
