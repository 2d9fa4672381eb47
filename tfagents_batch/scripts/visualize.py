"""Film a trained agent: ``python -m tfagents_batch.scripts.visualize --logdir=RUN``."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence

from tfagents_batch.scripts import app


def main(argv: Sequence[str]) -> int:
    """Parse flags, film episodes, print a line for each."""
    from tfagents_batch import api
    from tfagents_batch.config import option
    from tfagents_batch.errors import UserError

    @dataclasses.dataclass(frozen=True)
    class Command:
        """Of this script."""

        logdir: str | None = option(None, "the run's folder")
        outdir: str | None = option(None, "folder of the videos; default videos")
        num_episodes: int = option(5, "episodes to play")
        checkpoint: str = option("newest", "newest, best or a step")
        env: str | None = option(None, "environment to play instead")
        env_kwargs: dict | None = option(None, "JSON object of its arguments")
        wrappers: list | None = option(
            None, "JSON list of what to wrap it in; default as of the run"
        )
        seed: int = option(0, "of the environment (apart from training's)")
        debug: bool = option(False, "show tracebacks")

    command = app.parse(argv, Command)
    if command is None:
        return 0
    if command.logdir is None:
        raise UserError("no run: pass --logdir=<run folder>")
    episodes = api.visualize(
        command.logdir,
        command.outdir or "videos",
        command.num_episodes,
        checkpoint=command.checkpoint,
        env=command.env,
        env_kwargs=command.env_kwargs,
        wrappers=command.wrappers,
        seed=command.seed,
    )
    for episode in episodes:
        print(f"{episode.path}  return {episode.return_:g}, {episode.length} steps")
    return 0


if __name__ == "__main__":
    sys.exit(app.run(main))
