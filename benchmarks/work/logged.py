"""Work on logged rows."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Logged:
    """A folder of rows, and what to do there."""

    folder: str
    action: str  # "prepare" or "train"
    count: int  # rows to prepare, or gradient steps
