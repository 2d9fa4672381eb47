"""Store of traced programs: a later start reads them and need not trace them again.

Without this folder a run computes the same and starts more slowly. Other code needs
only the functions below.
"""

from tfagents_batch.training.compilation.function_names import name_evaluation
from tfagents_batch.training.compilation.program_store import (
    allow_storing,
    program_saver,
)

__all__ = ["allow_storing", "name_evaluation", "program_saver"]
