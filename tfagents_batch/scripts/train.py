"""Train an agent: ``python -m tfagents_batch.scripts.train --config=cartpole``."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence

from tfagents_batch.scripts import app


def main(argv: Sequence[str]) -> int:
    """Parse flags and train; prints the run's folder as the last line.

    Returns:
      Exit status: 0 when all steps are done, 128 and a signal's number when it ended
      the run early.
    """
    # Here, because TensorFlow takes seconds and reads the environment when imported.
    from absl import flags

    from tfagents_batch import api
    from tfagents_batch.config import (
        define_flags,
        option,
        overrides,
        parse_argv,
        peek,
        replace,
    )
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

    values = flags.FlagValues()
    define_flags(values, Command)
    define_flags(values, base)
    define_flags(values, base.settings, prefix="algorithm")
    text = parse_argv(argv, values)
    if text is not None:
        print(text)
        return 0
    command = replace(Command(), overrides(values, Command))
    options = overrides(values, base)
    changed = overrides(values, base.settings, prefix="algorithm")
    if command.seeds is not None:
        return _train_seeds(command, options, changed)
    run = api.train(
        options.pop("algorithm", None),
        options.pop("env", None),
        config=command.config,
        settings=changed or None,
        logdir=command.logdir,
        resume=command.resume,
        init_from=command.init_from,
        init_checkpoint=command.init_checkpoint,
        profile=command.profile,
        **options,
    )
    return _report([run])


def _train_seeds(command, options: dict, changed: dict) -> int:
    from tfagents_batch import api
    from tfagents_batch.errors import UserError

    for name in ("resume", "init_from", "init_checkpoint", "profile"):
        if getattr(command, name):
            raise UserError(f"--{name} is not for several seeds; leave out --seeds")
    done = api.train_seeds(
        options.pop("algorithm", None),
        options.pop("env", None),
        seeds=command.seeds,
        config=command.config,
        settings=changed or None,
        logdir=command.logdir,
        **options,
    )
    return _report(done)


def _report(done: list) -> int:
    """Print the folders of runs; the exit status."""
    from tfagents_batch.training.interrupt import exit_status

    for run in done:
        app.show(run.logdir)
    stopped = [run for run in done if not run.finished]
    return exit_status(stopped[0].signal) if stopped else 0


if __name__ == "__main__":
    sys.exit(app.run(main, trains=True))
