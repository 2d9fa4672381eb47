"""Check an environment: ``tfagents-batch check --env=NAME``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import command_line
from tfagents_batch.training.log import console


@dataclasses.dataclass(frozen=True)
class CheckCommand:
    """Flags of this script."""

    env: str | None = option(None, "environment to check")
    env_kwargs: dict | None = option(None, "arguments of the environment")
    steps: int = option(1000, "number of steps with random actions", least=1)
    seed: int = option(
        0, "seed of the environment and of the actions", least=0, most=2**31 - 1
    )
    debug: bool = option(False, "print tracebacks, also of reported problems")


def main(argv: Sequence[str]) -> int:
    """Parse flags, check the environment, and print a line per finding and the facts.

    Returns:
      Exit status: 65 if a defect was found, else 0.
    """
    command = command_line.parse(argv, CheckCommand)
    if command.env is None:
        raise UserError("no environment is given; pass --env=<name>")
    from tfagents_batch.envs.checking.check import check_env

    played = command.env, command.steps, command.seed, command.env_kwargs
    with console.doing(f"playing {command.env}"):
        report = check_env(*played, raise_on_defect=False)
    for finding in report.findings:
        command_line.show(finding.full_text() if command.debug else finding)
    command_line.say(report.overview())
    return 0 if report.ok else command_line.EXIT_DATA
