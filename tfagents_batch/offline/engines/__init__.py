"""Programs that run the SQL of the timeline: DuckDB in this process, or Spark."""
