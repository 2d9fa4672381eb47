"""Spark as an engine of the timeline, and its data frames as files."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.offline import publish
from tfagents_batch.offline.reading.dialect import Spark

# Option of Parquet's writer for Java; without it a row group is limited in bytes only.
_GROUP_ROWS = "parquet.block.row.count.limit"
# DuckDB writes neither checksums nor histograms of lengths, which cost time here.
# Values of features rarely repeat, so a dictionary of them is built in vain.
_PLAIN = {
    "parquet.page.write-checksum.enabled": False,
    "parquet.size.statistics.enabled": False,
    **{
        f"parquet.enable.dictionary#{column}.key_value.value": False
        for column in ("state_features", "next_state_features")
    },
}


class SparkEngine:
    """Session of Spark; methods without a text are as of ``DuckDBEngine``.

    Rows may be in files that store each column apart, ``in_columns``.
    """

    def __init__(self, session: Any, in_columns: bool = False):
        self._session, self._in_columns = session, in_columns
        self.dialect = Spark(_has_one_partition(session))
        self._kept: dict[str, Any] = {}
        self.version = f"spark {session.version}"

    def fetch(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._session.sql(query).collect()]

    def table(self, name: str, query: str) -> None:
        """Compute a query and keep its result, in memory or on the disk."""
        frame = self._session.sql(query).persist()
        frame.count()
        before = self._kept.pop(name, None)
        self._kept[name] = frame
        frame.createOrReplaceTempView(name)
        if before is not None:
            before.unpersist()

    def rows(self, name: str, query: str) -> None:
        """Create or replace a table, or a view if reading again costs less.

        Most queries read a few columns, which Parquet has apart.
        """
        if self._in_columns:
            self.view(name, query)
        else:
            self.table(name, query)

    def view(self, name: str, query: str) -> None:
        self._session.sql(query).createOrReplaceTempView(name)

    def drop(self, *names: str) -> None:
        for name in names:
            self._session.catalog.dropTempView(name)
            frame = self._kept.pop(name, None)
            if frame is not None:
                frame.unpersist()

    def write(self, query: str, folder: Path, prefix: str, group_rows: int) -> None:
        from pyspark.errors import PySparkException

        frame = self._session.sql(query)
        try:
            options = {_GROUP_ROWS: group_rows, **_PLAIN}
            write_frame(frame, folder, prefix, **options)
        except PySparkException as error:
            if "IOException" not in str(error):
                raise
            raise OSError(_line(error)) from error

    def read(self, name: str, files: list[str]) -> None:
        paths = [address(Path(file)) for file in files]
        self._session.read.parquet(*paths).createOrReplaceTempView(name)

    def run(self, work: Callable[[], None], tell: Callable[[float], None]) -> None:
        """Run statements; Spark does not say how far they are."""
        del tell
        with self.failing("the timeline cannot be made in Spark"):
            work()

    @contextlib.contextmanager
    def failing(self, what: str) -> Iterator[None]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JError) as error:
            raise UserError(f"{what}: {_line(error)}") from error


def _has_one_partition(session: Any) -> bool:
    """Return whether rows are grouped in one partition, by one thread."""
    partitions = session.conf.get("spark.sql.shuffle.partitions", "200")
    master = session.conf.get("spark.master", "")
    return partitions == "1" and master in ("local", "local[1]")


def _line(error: Exception) -> str:
    """Return the line of an error of Spark that says what is wrong."""
    lines = [x.strip() for x in str(error).splitlines()]
    told = [x for x in lines if "[" in x and "]" in x and "." in x]
    line = (told or lines or [""])[0]
    start = line.find("[")
    return line[start if told and start > 0 else 0 :]


def is_frame(data: Any) -> bool:
    """Return whether data is a DataFrame of Spark, also of Spark Connect."""
    kind = type(data)
    return kind.__module__.startswith("pyspark.") and kind.__name__ == "DataFrame"


def address(path: Path) -> str:
    """Return a path as Spark wants it: without escapes such as ``%20``."""
    return f"file://{path.absolute()}"


def write_frame(frame: Any, folder: Path, prefix: str, **options: Any) -> list[Path]:
    """Write a DataFrame as Parquet files with a prefix into a folder of this machine.

    Spark must see the folder under the same path; UserError if rows are missing there,
    because other machines wrote them. The options are those of Spark's writer.
    """
    from pyarrow import parquet
    from pyspark.sql import Observation, functions

    counted = Observation(f"rows_{secrets.token_hex(4)}")
    frame = frame.observe(counted, functions.count(functions.lit(1)).alias("rows"))
    target = folder.absolute() / "_spark"
    try:
        writer = frame.write.mode("overwrite").options(**options)
        writer.parquet(address(target))
        parts = []
        for i, path in enumerate(sorted(target.glob("part-*.parquet"))):
            parts.append(path.rename(folder / f"{prefix}{i}.parquet"))
    finally:
        shutil.rmtree(target, ignore_errors=True)
    rows = sum(parquet.read_metadata(path).num_rows for path in parts)
    if rows != counted.get["rows"]:
        raise UserError(
            f"Spark wrote {counted.get['rows']:,} rows, but {rows:,} are in {folder}; "
            "expected a folder that all machines of the cluster share. Pass such a "
            "folder"
        )
    return parts


@contextlib.contextmanager
def files_of(frame: Any, folder: Path) -> Iterator[list[Path]]:
    """Yield a DataFrame as Parquet files in a folder, which are removed at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    with publish.temporary(folder, "rows") as target:
        yield write_frame(frame, target, "rows-")
