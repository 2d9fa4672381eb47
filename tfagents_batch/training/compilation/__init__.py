"""Programs that are kept for later starts, which need not trace them again.

A start without this folder would do the same and take longer. These functions are all
that other code needs of it.
"""

from tfagents_batch.training.compilation.function_names import name_evaluation
from tfagents_batch.training.compilation.program_store import allowed, keeper

__all__ = ["allowed", "keeper", "name_evaluation"]
