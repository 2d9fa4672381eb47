"""A run's log for TensorBoard.

Scalars are curves, vectors histograms, events text and videos animated GIFs among the
images. All of a run is in one file per process, which is written record by record.
(``tf.summary`` cannot mark the steps that a resumed run discards, and it needs
TensorFlow ops.)
"""

from __future__ import annotations

import io
import itertools
import math
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tensorboard.compat.proto import summary_pb2
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams.summary import session_end_pb
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.image import metadata as image_metadata
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.util import tensor_util

from tfagents_batch.training.log import writers
from tfagents_batch.training.log.writers import RetryingFile
from tfagents_batch.training.run_folder import config_file
from tfagents_batch.training.run_folder.config_file import SAME_CURVE, Setting

# TensorBoard sorts groups and columns by name, capital letters first. So these come
# before all others. Every other metric has its own name.
TAGS = {
    "eval/return_mean": "Return/eval",
    "eval_sample/return_mean": "Return/eval_sample",
    "episode/return_mean": "Return/training",
}
# Counters that are 0 in a healthy run, which has no curve of them.
FAULTS = frozenset(
    f"{group}/{name}"
    for group, names in {
        "env": (
            *("lost_steps", "missing_episodes", "not_finite"),
            *("observation_out_of_bounds", "restarts", "stale_replies"),
        ),
        "eval": ("cut_off_episodes", "failed_episodes"),
        "eval_sample": ("cut_off_episodes", "failed_episodes"),
        "grad": ("actor_skipped", "skipped"),
        "pool": ("restarts", "spilled_bytes"),
    }.items()
    for name in names
)
SLICES = 20  # histograms of one name in a run: TensorBoard draws each of them
FASTEST = 50  # pictures per second; browsers slow down those that are faster
_WIDTH = 110  # characters of a line of text
_SHOWN = "event", "step", "time/unix_seconds"  # keys that TensorBoard shows already
_ALWAYS = "algorithm", "env", "seed"  # shown even if they are defaults


class TensorBoard:
    """Writes one run's events for TensorBoard.

    Args:
      folder, resume_step, warn, settings, steps: see ``Logger``.
      faults: names of counters that were not 0 before ``resume_step``.
    """

    def __init__(
        self,
        folder: Path,
        resume_step: int | None,
        warn: Callable[[str], None],
        settings: Mapping[str, Setting] | None = None,
        steps: int | None = None,
        faults: Collection[str] = (),
    ):
        self._steps = steps
        self._faults = FAULTS & set(faults)
        before = -1 if resume_step is None else self._slice(resume_step)
        self._first, self._slices = before, dict[str, int]()
        file = writers.EventFile(folder, resume_step)
        self._file = RetryingFile("TensorBoard's file", file, warn)
        self._settings, self._folder = settings, folder

    def start(self, step: int) -> None:
        """Write the settings; TensorBoard shows those of the first start."""
        if self._settings is None:
            return
        self._write(step, text_pb("Settings", table(self._settings)))
        row = {
            name: _hparam(name, setting.value)
            for name, setting in self._settings.items()
            if name in _ALWAYS or (setting.is_changed and name not in SAME_CURVE)
        }
        # The page shows only the first characters, so the time goes to the end.
        time, _, rest = self._folder.name.partition("-")
        self._write(step, hparams_pb(row, trial_id=f"{rest} {time}".strip()))

    def write(
        self, step: int, scalars: Mapping[str, float], vectors: Mapping[str, np.ndarray]
    ) -> None:
        """Write the metrics of a line."""
        self._faults |= {name for name in FAULTS & scalars.keys() if scalars[name]}
        summary = summary_pb2.Summary()
        with np.errstate(all="ignore"):  # values too large for a float32
            for name, value in scalars.items():
                if name not in FAULTS or name in self._faults:
                    summary.MergeFrom(scalar_pb(TAGS.get(name, name), value))
            for name, value in vectors.items():
                if value.size and self._is_due(name, step):
                    summary.MergeFrom(histogram_pb(name, value))
        self._write(step, summary)

    def event(self, step: int, line: Mapping[str, Any]) -> None:
        """Write an event as text; ``finished`` also ends the row of settings."""
        fields = {key: x for key, x in line.items() if key not in _SHOWN}
        text = "\n".join(f"{key}: {value}" for key, value in fields.items())
        # Text that is not Markdown, with short lines because the page does not fold it.
        short = (textwrap.wrap(part, _WIDTH) for part in text.splitlines())
        code = "\n".join(f"    {part}" for parts in short for part in parts)
        self._write(step, text_pb(f"event/{line['event']}", code))
        if line["event"] == "finished" and self._settings is not None:
            end = session_end_pb(api_pb2.STATUS_SUCCESS)  # TensorFlow's class
            self._write(step, summary_pb2.Summary.FromString(end.SerializeToString()))

    def video(self, step: int, name: str, frames: np.ndarray, fps: float) -> bytes:
        """Write a video, uint8 ``[n, height, width, 3]``, and return its GIF."""
        data = gif(frames, fps)
        height, width = np.shape(frames)[1:3]
        self._write(step, _image(name, width, height, data))
        return data

    def close(self) -> None:
        """Close the file; may be called again."""
        self._file.close()

    def _write(self, step: int, summary: summary_pb2.Summary) -> None:
        if summary.value:
            self._file.write(writers.event(step=step, summary=summary))

    def _slice(self, step: int) -> int:
        """Return the number of the slice that a step belongs to, from 0."""
        if self._steps is None:
            return step
        return (SLICES - 1) * min(step, self._steps) // self._steps

    def _is_due(self, name: str, step: int) -> bool:
        """Return whether a slice of this name begins with this step."""
        number = self._slice(step)
        if number <= self._slices.get(name, self._first):
            return False
        self._slices[name] = number
        return True


def table(settings: Mapping[str, Setting]) -> str:
    """Return settings, by the names of their flags, as two tables in Markdown.

    The second one has the settings that are not changed.
    """
    first = ["| setting | value | default |", "|---|---|---|"]
    second = ["| setting at its default | value |", "|---|---|"]
    for name, setting in settings.items():
        cells = f"| `--{name}` | {_cell(name, setting.value)} |"
        if setting.is_changed or name in _ALWAYS:
            first.append(f"{cells} {_cell(name, setting.default)} |")
        else:
            second.append(cells)
    return "\n".join([*first, "", *second])


def _cell(name: str, value: Any) -> str:
    return config_file.as_text(name, value).replace("|", r"\|")


def _hparam(name: str, value: Any) -> bool | int | float | str:
    """Convert a setting for the tab of hyperparameters; it has no lists and no None."""
    if isinstance(value, (bool, int, float)):
        return value
    return config_file.as_text(name, value)


def _image(name: str, width: int, height: int, data: bytes) -> summary_pb2.Summary:
    """Return a summary of an encoded picture: width, height and data."""
    parts = np.array([str(width).encode(), str(height).encode(), data], object)
    tensor = tensor_util.make_tensor_proto(parts, dtype=np.object_)
    metadata = image_metadata.create_summary_metadata(None, None)
    summary = summary_pb2.Summary()
    summary.value.add(tag=name, metadata=metadata, tensor=tensor)
    return summary


def gif(pictures: Iterable[np.ndarray], fps: float) -> bytes:
    """Return an animated GIF of 256 colors, which every browser plays.

    There is at least one picture, uint8 ``[height, width, 3]`` each. Above ``FASTEST``
    pictures per second some are left out.
    """
    from PIL import Image  # comes with TensorBoard; slow to import

    stride = max(math.ceil(fps / FASTEST), 1)
    shown = itertools.islice(pictures, 0, None, stride)
    first, *others = [Image.fromarray(picture).quantize() for picture in shown]
    # A GIF counts hundredths of a second, so pictures differ by one.
    times = [round(100 * stride * n / fps) for n in range(len(others) + 2)]
    options = {"save_all": True, "append_images": others, "loop": 0}
    options["duration"] = [10 * (y - x) for x, y in itertools.pairwise(times)]
    file = io.BytesIO()
    first.save(file, format="GIF", **options)
    return file.getvalue()
