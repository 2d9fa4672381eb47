"""Errors of Spark's jobs."""

from tfagents_batch.distribute import spark_workers


def test_the_cause_of_a_failed_job_is_not_a_frame_of_java():
    text = """An error occurred while calling collectAndServe.
    : org.apache.spark.SparkException: Job 3 cancelled: SparkContext was shut down
        at org.apache.spark.scheduler.DAGScheduler.abort(DAGScheduler.scala:1)
        at org.apache.spark.util.Utils$.logUncaughtExceptions(Utils.scala:1963)"""
    found = spark_workers._cause(RuntimeError(text))
    assert found.endswith("Job 3 cancelled: SparkContext was shut down")
