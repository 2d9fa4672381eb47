"""Picture of the newest results: ``python -m benchmarks.plots``."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import textwrap
from typing import Any

from benchmarks import contenders
from benchmarks.measure import command, results
from benchmarks.work import machine
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.training.analysis import figure

_INCHES = 9  # width of a picture; the text is readable where it is 900 pixels wide
_LABEL = 44  # characters of a label
_GAP = 0.6  # between the bars of two rows, in bars
# Colors of the libraries in the chart of speeds; other contenders are our own.
_PEERS = {
    contenders.SB3: "tab:orange",
    contenders.SBX: "tab:green",
    contenders.TF_AGENTS: "tab:red",
    contenders.JAX: "tab:purple",
    contenders.BATCH_PPO: "tab:brown",
    contenders.SAMPLE_FACTORY: "tab:cyan",
}


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    folder: str = option(str(results.FOLDER), "folder of the results files")
    out: str = option(str(machine.ROOT / "docs/images"), "folder of the picture")


def main(flags: Command) -> int:
    """Draw the speeds of training, and print the path."""
    path = pathlib.Path(flags.folder) / "training.jsonl"
    newest = results.newest(results.read(path))
    rows = {name: [x for x in row if "failed" not in x] for name, row in newest.items()}
    if not any(rows.values()):
        raise UserError(f"{path} has no results to draw; run benchmarks.compare")
    out = pathlib.Path(flags.out) / "benchmarks.png"
    out.parent.mkdir(parents=True, exist_ok=True)
    speeds(rows, str(out))
    print(out)
    return 0


def speeds(rows: dict[str, list[dict[str, Any]]], out: str) -> None:
    """Draw a bar for each library in each row: how many times faster ours is."""
    works: dict[str, list[dict[str, Any]]] = {}  # two rows may have the same work
    for line in (line for row in rows.values() for line in row):
        if line["peer"] in _PEERS:
            title = re.sub(r" \(.*\)", "", line["title"])
            works.setdefault(title, []).append(line)
    height = 0.22 * sum(len(lines) + _GAP for lines in works.values()) + 1
    folded = textwrap.TextWrapper(_LABEL, break_on_hyphens=False)
    with figure.panels(1, 1, (_INCHES, height), out) as axes:
        axis, place, middles, drawn = axes[0, 0], 0.0, [], set()
        for lines in works.values():
            middles.append(place + (len(lines) - 1) / 2)
            for line in lines:
                _bar(axis, place, line, drawn)
                place += 1
            place += _GAP
        axis.set_yticks(middles, [folded.fill(title) for title in works])
        axis.tick_params(axis="y", labelsize=9, length=0)
        axis.axvline(1, color="black", linestyle="--", linewidth=1, label="equal speed")
        axis.set_ylim(place, -1)
        axis.margins(x=0.06)
        axis.set_xlabel("env steps per second of training: ours / theirs")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(fontsize=9, loc="lower right", title="times as fast as")


def _bar(axis: Any, place: float, line: dict[str, Any], drawn: set[str]) -> None:
    """Draw the ratio of a line with its interval; the legend has a library once."""
    peer, ratio = line["peer"], line["ratio"]
    median, low, high = (ratio[name] for name in ("median", "low", "high"))
    label = None if peer in drawn else peer
    drawn.add(peer)
    axis.barh(place, median, height=0.85, color=_PEERS[peer], alpha=0.8, label=label)
    axis.hlines(place, low, high, color="black", linewidth=1)
    text = {"textcoords": "offset points", "va": "center", "fontsize": 8}
    axis.annotate(f"{median:.1f}", (high, place), (4, 0), **text)


if __name__ == "__main__":
    command.run(Command, main)
