"""Train an agent to play Breakout and save a video: ``tfagents-batch demo``.

It needs no other package and takes about half a minute: PQN (Gallici et al. 2024)
learns MinAtar's Breakout, which is written in TensorFlow, from 400,000 steps.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence

from tfagents_batch.config import option
from tfagents_batch.scripts import command_line
from tfagents_batch.training.log import console

_PRESET = "pqn/breakout-minatar"
TRAINS = True


@dataclasses.dataclass(frozen=True)
class DemoCommand:
    """Flags of this script."""

    logdir: str | None = option(None, "root folder of the runs; none: logs")
    outdir: str = option("videos", "folder of the video")
    steps: int = option(400_000, "environment steps", least=1)
    seed: int = option(0, "seed of the run", least=0, most=2**31 - 1)
    quiet: bool = option(False, "show warnings only")
    debug: bool = option(False, "print tracebacks")


def main(argv: Sequence[str]) -> int:
    """Train, play an episode, and print where the run and the video are."""
    command = command_line.parse(argv, DemoCommand)
    from tfagents_batch import api
    from tfagents_batch.training.signals import exit_status

    run = api.train(
        config=_PRESET,
        logdir=command.logdir,
        steps=command.steps,
        seed=command.seed,
        progress=not command.quiet,
    )
    if not run.finished:
        return exit_status(run.signal)
    with console.starting(command.quiet, ""):
        [episode] = api.visualize(run.logdir, command.outdir, 1, format="gif")
    command_line.show(f"run:      {run.logdir}")
    command_line.show(f"video:    {episode.path}  {episode.length} steps")
    folder = shlex.quote(run.logdir)
    command_line.show(f"evaluate: tfagents-batch evaluate --logdir={folder}")
    command_line.show("next:     tfagents-batch train --env=CartPole-v1")
    return 0
