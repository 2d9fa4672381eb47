"""Film a trained agent: ``tfagents-batch visualize --logdir=RUN``."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Literal

from tfagents_batch.config import option
from tfagents_batch.scripts import command_line


@dataclasses.dataclass(frozen=True)
class VisualizeCommand(command_line.PlayCommand):
    """Flags of this script."""

    outdir: str = option("videos", "folder of the videos")
    episodes: int = option(5, "number of episodes", least=1)
    format: Literal["mp4", "gif"] = option(
        "mp4", "format of the videos; mp4 needs the extra video"
    )


def main(argv: Sequence[str]) -> int:
    """Parse flags, record episodes and print a line for each."""
    from tfagents_batch import api

    command = command_line.parse(argv, VisualizeCommand)
    if command is None:
        return 0
    episodes = api.visualize(
        outdir=command.outdir,
        episodes=command.episodes,
        format=command.format,
        **command.arguments(),
    )
    for episode in episodes:
        print(f"{episode.path}  return {episode.return_:g}, {episode.length} steps")
    return 0


if __name__ == "__main__":
    sys.exit(command_line.run(main))
