"""Check an environment: ``python -m tfagents_batch.scripts.check --env=NAME``."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence

from tfagents_batch.scripts import app


def main(argv: Sequence[str]) -> int:
    """Parse flags, check, and print one line a finding; a summary goes to stderr.

    Returns:
      Exit status: 0 without defects, whatever else was found, else 65.
    """
    from tfagents_batch.config import option
    from tfagents_batch.envs.checking.check import check_env
    from tfagents_batch.errors import UserError

    @dataclasses.dataclass(frozen=True)
    class Command:
        """Of this script."""

        env: str | None = option(None, "environment to check")
        env_kwargs: dict | None = option(None, "JSON object of its arguments")
        steps: int = option(1000, "steps of random play")
        seed: int = option(0, "of the environment and of the actions")
        debug: bool = option(False, "show tracebacks, those of findings too")

    command = app.parse(argv, Command)
    if command is None:
        return 0
    if command.env is None:
        raise UserError("no environment: pass --env=<name>")
    report = check_env(
        command.env,
        command.steps,
        command.seed,
        command.env_kwargs,
        raise_on_defect=False,
    )
    for finding in report.findings:
        print(finding.full_text() if command.debug else finding)
    print(report.headline(), file=sys.stderr)
    return 0 if report.ok else app.EXIT_DATA


if __name__ == "__main__":
    sys.exit(app.run(main))
