"""SQL texts in the words of Spark."""

import pathlib

from tfagents_batch.offline.reading import contents
from tfagents_batch.offline.reading.dialect import SPARK, Spark
from tfagents_batch.offline.schema import Schema
from tfagents_batch.offline.timeline_config import TimelineConfig
from tfagents_batch.offline.timeline_sql import Generator

GOLDEN = pathlib.Path(__file__).with_name("spark_golden.sql")


def test_the_text_of_one_timeline_is_that_of_the_golden_file():
    schema = Schema("discrete", ("a", "b'"), (1,), (), ("m",), ("ids",))
    config = TimelineConfig(
        n_step=2,
        gamma=0.5,
        end_ds="2026-01-03",
        on_duplicate="first",
        metric_weights={"m": 2},
    )
    texts = Generator(schema, config, SPARK)
    found = [
        texts.input("logged_rows"),
        texts.rows(),
        texts.without_duplicates(),
        texts.episodes("logged_rows"),
        texts.samples(7.5),
        contents.query("logged_rows", "parametric", SPARK),
    ]
    assert ";\n\n".join(found) + "\n" == GOLDEN.read_text()


def test_groups_in_one_partition_need_no_exchange():
    assert SPARK.gathered("SELECT 1") == "SELECT 1"
    assert Spark(one_partition=True).gathered("SELECT 1") == (
        "SELECT /*+ COALESCE(1) */ * FROM (SELECT 1)"
    )


def test_texts_and_types_have_the_words_of_spark():
    assert SPARK.text("it's \\") == r"'it\'s \\'"
    assert SPARK.name("a`b") == "`a``b`"
    assert SPARK.number(1e-5) == "1e-05D"
    assert SPARK.type("MAP(BIGINT, DOUBLE)[]") == "ARRAY<MAP<BIGINT, DOUBLE>>"
