"""Picture of the newest speeds of training: ``python -m benchmarks.plots``."""

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
from tfagents_batch.training.log import curves

_INCHES = 9  # width of a picture; the text is readable where it is 900 pixels wide
_LABEL = textwrap.TextWrapper(44, break_on_hyphens=False)
_GAP = 0.6  # between the bars of two rows, in bars
# Colors of the libraries; other contenders are our own.
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
    rows = results.newest(results.read(path)).values()
    lines = [line for row in rows for line in row if "failed" not in line]
    if not lines:
        raise UserError(f"{path} has no results to draw; run benchmarks.compare")
    out = pathlib.Path(flags.out) / "benchmarks.png"
    out.parent.mkdir(parents=True, exist_ok=True)
    speeds(lines, str(out))
    print(out)
    return 0


def speeds(lines: list[dict[str, Any]], out: str) -> None:
    """Draw a bar for the fastest setting of each library: ours / theirs."""
    works: dict[str, dict[str, Any]] = {}  # ratios; two rows may have the same work
    for line in lines:
        if (peer := line["peer"]) in _PEERS:
            bars = works.setdefault(re.sub(r" \(.*\)", "", line["title"]), {})
            settings = bars.get(peer, line["ratio"]), line["ratio"]
            bars[peer] = min(settings, key=lambda ratio: ratio["median"])
    height = 0.22 * sum(len(bars) + _GAP for bars in works.values()) + 1
    with curves.panels(1, 1, (_INCHES, height), out) as axes:
        axis, place, middles = axes[0, 0], 0.0, []
        labels = {peer: peer for peer in _PEERS}  # the legend has each one once
        for bars in works.values():
            middles.append(place + (len(bars) - 1) / 2)
            for peer, ratio in bars.items():
                style = {"color": _PEERS[peer], "label": labels.pop(peer, None)}
                axis.barh(place, ratio["median"], height=0.85, alpha=0.8, **style)
                axis.hlines(place, ratio["low"], ratio["high"], "black", linewidth=1)
                text = {"textcoords": "offset points", "va": "center", "fontsize": 8}
                end = ratio["high"], place
                axis.annotate(f"{ratio['median']:.1f}", end, (4, 0), **text)
                place += 1
            place += _GAP
        axis.set_yticks(middles, [_LABEL.fill(title) for title in works])
        axis.tick_params(axis="y", labelsize=9, length=0)
        axis.axvline(1, color="black", linestyle="--", linewidth=1, label="equal speed")
        axis.set_ylim(place, -1)
        axis.margins(x=0.06)
        axis.set_xlabel("env steps per second of training: ours / theirs")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(fontsize=9, loc="lower right", title="times as fast as")


if __name__ == "__main__":
    command.run(Command, main)
