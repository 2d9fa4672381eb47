"""Lines of metrics that equal runs have in common."""

from tfagents_batch.training.logger import read_metrics


def of_the_seed(run):
    """A run's lines of metrics, without what depends on the machine."""
    drop = ("time/", "system/")
    return [
        {k: v for k, v in line.items() if not k.startswith(drop)}
        for line in read_metrics(run.logdir)
    ]
