"""Play a trained agent: ``tfagents-batch evaluate --logdir=RUN``."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Literal

from tfagents_batch.config import option
from tfagents_batch.scripts import command_line


@dataclasses.dataclass(frozen=True)
class EvaluateCommand(command_line.PlayCommand):
    """Flags of this script."""

    episodes: int = option(20, "number of episodes", least=1)
    env_options: dict | None = option(
        None, "options of make_env, added to those of the run"
    )
    actions: Literal["mode", "sample"] = option(
        "mode", "the most likely action (mode), or sampled actions as in training"
    )
    max_episode_steps: int | None = option(
        None,
        "steps after which an episode is cut off; none: as in the run's evaluations",
        least=1,
    )


def main(argv: Sequence[str]) -> int:
    """Parse flags, play episodes and print the result as one JSON line."""
    command = command_line.parse(argv, EvaluateCommand)
    arguments = command.arguments()
    command_line.import_tensorflow()
    from tfagents_batch import api

    result = api.evaluate(
        episodes=command.episodes,
        env_options=command.env_options,
        actions=command.actions,
        max_episode_steps=command.max_episode_steps,
        **arguments,
    )
    line = {
        "episodes": result.episodes,
        "failed_episodes": result.failed_episodes,
        "cut_off_episodes": result.cut_off_episodes,
    }
    if result.episodes:
        line |= {
            "mean_return": result.mean_return,
            "std_return": result.std_return,
            "mean_length": float(result.lengths.mean()),
        }
    line |= {f"mean_{name}": mean for name, mean in result.means.items()}
    command_line.show(json.dumps(line))
    return 0
