"""Train an agent: ``python -m tfagents_batch.scripts.train --config=cartpole``."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence

from tfagents_batch.scripts import app
from tfagents_batch.training.runtime.signals import exit_status

# Flags that are not for several seeds.
_ALONE = ("resume", "init_from", "init_checkpoint", "profile")


def main(argv: Sequence[str]) -> int:
    """Parse flags and train; prints the run's folder as the last line.

    Returns:
      Exit status: 0 when all steps are done, 128 and a signal's number when it ended
      the run early.
    """
    # Here, because TensorFlow takes seconds and reads the environment when imported.
    from tfagents_batch import api
    from tfagents_batch.config import option, peek, replace
    from tfagents_batch.configs import PRESETS

    algorithm, preset = peek(argv, "algorithm"), peek(argv, "config")
    base = api.resolve(algorithm, None, preset, None, {})

    @dataclasses.dataclass(frozen=True)
    class Command:
        """Of this script."""

        config: str | None = option(None, f"preset: {', '.join(PRESETS)}")
        logdir: str | None = option(None, "folder that holds the runs; default logs")
        resume: str | None = option(None, "run folder to go on with")
        init_from: str | None = option(
            None, "run folder whose agent a new run begins with"
        )
        init_checkpoint: str | None = option(
            None, "which one of it: newest, best or a step; default newest"
        )
        seeds: int | None = option(
            None, "train as many, counted up from --seed, at once (env tf/...)", least=1
        )
        profile: bool = option(False, "measure at the end where the time goes")
        debug: bool = option(False, "show tracebacks")

    parts = (Command, ""), (base, ""), (base.settings, "algorithm")
    given = app.flags(argv, *parts)
    if given is None:
        return 0
    command, options, changed = given
    command = replace(Command(), command)
    alone = {name: getattr(command, name) for name in _ALONE}
    options |= {name: value for name, value in alone.items() if value}
    options |= {"config": command.config, "logdir": command.logdir}
    options["settings"] = changed or None
    if command.seeds is None:
        done = [api.train(**options)]
    else:
        done = api.train_seeds(seeds=command.seeds, **options)
    for run in done:
        app.show(run.logdir)
    stopped = [run for run in done if not run.finished]
    return exit_status(stopped[0].signal) if stopped else 0


if __name__ == "__main__":
    sys.exit(app.run(main, trains=True))
