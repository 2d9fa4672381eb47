"""Tables of the newest results in Markdown: ``python -m benchmarks.table``."""

from __future__ import annotations

import dataclasses
import functools
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
    all: bool = option(False, "show every setting of a peer, not only its best")
    page: str = option("", "page to write the tables into, such as docs/benchmarks.md")


def main(flags: Command) -> int:
    """Print a table for each kind of results, or write them into a page."""
    writers = {
        "environments": functools.partial(tables.environments, everything=flags.all),
        "training": tables.training,
        "replay": tables.costs,
        "workers": tables.costs,
        "learning": tables.learning,
        "startup": tables.startup,
        "scaling": tables.scaling,
        "endurance": tables.endurance,
    }
    folder = pathlib.Path(flags.folder)
    found = {
        name: write(results.read(folder / f"{name}.jsonl"))
        for name, write in writers.items()
    }
    if flags.page:
        page = pathlib.Path(flags.page)
        page.write_text(written(page.read_text(), found))
    else:
        print("\n\n".join(found.values()))
    return 0


def written(page: str, found: Mapping[str, str]) -> str:
    """Return the text of a page with new tables between their marks.

    Args:
      page: its text, with ``<!-- table: name -->`` and ``<!-- end -->`` for each table.
      found: tables by name.

    Raises:
      UserError: if the marks of a table are missing.
    """
    for name, text in found.items():
        mark, end = f"<!-- table: {name} -->", "<!-- end -->"
        pattern = re.compile(f"{re.escape(mark)}.*?{end}", re.DOTALL)
        if not pattern.search(page):
            raise UserError(f"the page has no {mark} followed by {end}; add both")
        new = f"{mark}\n\n{text}\n\n{end}"
        page = pattern.sub(lambda _, new=new: new, page, count=1)
    return page


if __name__ == "__main__":
    command.run(Command, main)
