"""Store of traced programs, which a later start reads instead of tracing again.

Without this package, runs would give the same results but start more slowly. Other code
needs only the functions below.
"""

from tfagents_batch.training.compilation.function_names import name_evaluation
from tfagents_batch.training.compilation.program_store import (
    allow_storing,
    program_saver,
)

__all__ = ["allow_storing", "name_evaluation", "program_saver"]
