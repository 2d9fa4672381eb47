"""Play a trained agent: ``python -m tfagents_batch.scripts.evaluate --logdir=RUN``."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import Literal

from tfagents_batch.scripts import app


def main(argv: Sequence[str]) -> int:
    """Parse flags, play episodes, print one JSON line of the result on stdout."""
    from tfagents_batch import api
    from tfagents_batch.config import option
    from tfagents_batch.errors import UserError

    @dataclasses.dataclass(frozen=True)
    class Command:
        """Of this script."""

        logdir: str | None = option(None, "the run's folder")
        episodes: int = option(20, "episodes to play")
        checkpoint: str = option("newest", "newest, best or a step")
        env: str | None = option(None, "environment to play instead")
        env_kwargs: dict | None = option(None, "JSON object of its arguments")
        wrappers: list | None = option(
            None, "JSON list of what to wrap it in; default as of the run"
        )
        env_options: dict | None = option(
            None, "JSON object of further options of make_env, beside the run's"
        )
        seed: int = option(0, "of environments (apart from training's) and samples")
        actions: Literal["mode", "sample"] = option(
            "mode", "the policy's mode, or samples as in training"
        )
        debug: bool = option(False, "show tracebacks")

    command = app.parse(argv, Command)
    if command is None:
        return 0
    if command.logdir is None:
        raise UserError("no run: pass --logdir=<run folder>")
    result = api.evaluate(
        command.logdir,
        command.episodes,
        checkpoint=command.checkpoint,
        env=command.env,
        env_kwargs=command.env_kwargs,
        wrappers=command.wrappers,
        env_options=command.env_options,
        seed=command.seed,
        actions=command.actions,
    )
    line = {"episodes": result.episodes, "failed_episodes": result.failed_episodes}
    if result.episodes:
        line |= {
            "mean_return": result.mean_return,
            "std_return": result.std_return,
            "mean_length": float(result.lengths.mean()),
        }
    line |= {f"mean_{name}": mean for name, mean in result.means.items()}
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(app.run(main))
