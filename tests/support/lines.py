"""Reproducible part of a run's metrics, and the checkpoints of a run."""

import json
import pathlib

from tfagents_batch.training.log.logger import read_metrics


def of_the_seed(run):
    """Return a run's lines of metrics without those that depend on the machine."""
    return without_times(read_metrics(run.logdir))


def without_times(lines):
    drop = ("time/", "system/")
    return [{k: v for k, v in x.items() if not k.startswith(drop)} for x in lines]


def saved(folder):
    """Return ``{step: metadata}`` of the checkpoints in a run folder, oldest first."""
    paths = pathlib.Path(folder).glob(f"checkpoints/step-{'?' * 12}/manifest.json")
    manifests = [json.loads(path.read_text()) for path in sorted(paths)]
    return {each["step"]: each["metadata"] for each in manifests}
