"""Decide by logged rows whether a policy is deployed:
``tfagents-batch decide --logdir=logs/<run> --data=table``.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from tfagents_batch import config
from tfagents_batch.config import option
from tfagents_batch.errors import UserError, saving
from tfagents_batch.evaluation import rules as gate
from tfagents_batch.evaluation.fitting import EvaluationSettings
from tfagents_batch.offline import publish, table_reader
from tfagents_batch.scripts import command_line
from tfagents_batch.training.log import console

_VERDICT, _PAGE = "gate.json", "index.html"


@dataclasses.dataclass(frozen=True)
class DecideCommand:
    """Flags of this script."""

    logdir: str = option("", "run folder, whose agent would be deployed; required")
    data: str = option("", "timeline of the log, see tfagents-batch timeline; required")
    rules: str = option("", "JSON file of limits; empty: the defaults")
    checkpoint: str = option("newest", "checkpoint: newest, best or a step")
    exploration: float = option(
        0.0, "share of random decisions, as of the export", least=0, most=1
    )
    output: str = option("decision", "folder of index.html and gate.json")
    debug: bool = option(False, "print tracebacks")


def main(argv: Sequence[str]) -> int:
    """Parse flags, evaluate, write both files, and print the verdict.

    Returns:
      Exit status: 0 deploy, 1 do not, 3 cannot tell.
    """
    command, settings = command_line.parse_parts(
        argv, DecideCommand, EvaluationSettings
    )
    for name in ("logdir", "data"):
        if not getattr(command, name):
            raise UserError(f"--{name} is not given; pass --{name}=<folder>")
    limits = gate.read(command.rules) if command.rules else gate.DeployRules()
    folder = Path(command.output).expanduser()
    _check_output(folder)
    known = table_reader.partition(command.data).schema
    gate.check_names(limits, known.actions, ("reward", *known.metrics))
    command_line.check_run(command.logdir, command.checkpoint)
    command_line.import_tensorflow()
    from tfagents_batch.evaluation import policies
    from tfagents_batch.evaluation.page import page

    policy = command.logdir, command.data, command.exploration, command.checkpoint
    with console.doing("evaluating"), policies.opened(*policy, settings) as evaluated:
        _remove_earlier(folder)  # not before: a misspelled flag must lose nothing
        evaluation = evaluated(command_line.say)
    decision = gate.decide(evaluation, limits)
    content = {
        **decision.to_dict(),
        "rules": config.to_dict(limits),
        "evaluation": evaluation.to_dict(),
    }
    with publish.folder(folder, _check_output) as staged:
        (staged / _PAGE).write_text(page(evaluation, decision))
        (staged / _VERDICT).write_text(json.dumps(content, indent=2))
    for finding in decision.findings:
        if finding.text not in decision.reason:  # which is the last line
            command_line.show(f"{finding.state:8}{finding.rule}: {finding.text}")
    command_line.show(f"{decision.verdict}: {decision.reason}")
    return gate.EXITS[decision.verdict]


def _remove_earlier(folder: Path) -> None:
    """Remove an earlier decision, which must not be taken for one that failed."""
    _check_output(folder)
    with saving(folder):
        for name in (_PAGE, _VERDICT):  # the one that says whose they are is last
            (folder / name).unlink(missing_ok=True)


def _check_output(folder: Path) -> None:
    # A page without a verdict is nobody's.
    publish.check_only(folder, {_VERDICT, _PAGE}, "decision", _VERDICT)
