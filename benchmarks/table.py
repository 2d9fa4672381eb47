"""Tables of the newest results in Markdown: ``python -m benchmarks.table``."""

from __future__ import annotations

import dataclasses
import pathlib
import re

from benchmarks.measure import command, results, tables
from tfagents_batch.config import option
from tfagents_batch.errors import UserError


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    folder: str = option(str(results.FOLDER), "folder of the results files")
    page: str = option("", "page to write the tables into, such as docs/benchmarks.md")


def main(flags: Command) -> int:
    """Print a table for each kind of results, or write them into a page."""
    page = pathlib.Path(flags.page)
    text = page.read_text() if flags.page else ""
    for name, write in tables.WRITERS.items():
        lines = results.read(pathlib.Path(flags.folder) / f"{name}.jsonl")
        table = write(lines) if lines else "No result is recorded yet."
        if not flags.page:
            print(f"{table}\n")
            continue
        mark, end = f"<!-- table: {name} -->", "<!-- end -->"
        pattern = re.compile(f"{mark}.*?{end}", re.DOTALL)
        if not pattern.search(text):
            raise UserError(f"the page has no {mark} followed by {end}; add both")
        new = f"{mark}\n\n{table}\n\n{end}"
        text = pattern.sub(lambda _, new=new: new, text, count=1)
    if flags.page:
        page.write_text(text)
    return 0


if __name__ == "__main__":
    command.run(Command, main)
