"""Tables of the newest results in Markdown: ``python -m benchmarks.table``."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Mapping

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
    folder = pathlib.Path(flags.folder)
    written = {
        name: tables.written(name, results.read(folder / f"{name}.jsonl"))
        for name in tables.WRITERS
    }
    if flags.page:
        page = pathlib.Path(flags.page)
        page.write_text(replaced(page.read_text(), written))
    else:
        print("\n\n".join(written.values()))
    return 0


def replaced(page: str, written: Mapping[str, str]) -> str:
    """Return the text of a page with new tables between their marks."""
    for name, text in written.items():
        mark, end = f"<!-- table: {name} -->", "<!-- end -->"
        pattern = re.compile(f"{re.escape(mark)}.*?{end}", re.DOTALL)
        if not pattern.search(page):
            raise UserError(f"the page has no {mark} followed by {end}; add both")
        new = f"{mark}\n\n{text}\n\n{end}"
        page = pattern.sub(lambda _, new=new: new, page, count=1)
    return page


if __name__ == "__main__":
    command.run(Command, main)
