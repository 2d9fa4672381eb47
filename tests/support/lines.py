"""Reproducible part of a run's metrics, and the checkpoints of a run."""

import json
import pathlib
import shutil

from tfagents_batch.training.log.logger import read_metrics


def of_the_seed(run):
    """Return a run's lines of metrics without those that depend on the machine."""
    return without_times(read_metrics(run.logdir))


def without_times(lines):
    drop = ("time/", "system/")
    return [{k: v for k, v in x.items() if not k.startswith(drop)} for x in lines]


def stopped_early(run, folder):
    """Copy a run's folder without the checkpoints after its first permanent one.

    The copy continues there, as if the run had been killed at its end.
    """
    shutil.copytree(run.logdir, folder)
    steps = saved(folder)
    first = min(step for step, metadata in steps.items() if metadata["keep"])
    assert first < run.step
    for step in steps:
        if step > first:
            shutil.rmtree(folder / "checkpoints" / f"step-{step:012d}")
    return folder


def saved(folder):
    """Return ``{step: metadata}`` of the checkpoints in a run folder, oldest first."""
    paths = pathlib.Path(folder).glob(f"checkpoints/step-{'?' * 12}/manifest.json")
    manifests = [json.loads(path.read_text()) for path in sorted(paths)]
    return {each["step"]: each["metadata"] for each in manifests}
