"""Rows of any form as views of DuckDB or Spark, and these engines; see ``reader``."""
