"""All commands: ``tfagents-batch train``, or ``python -m tfagents_batch train``."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

import tfagents_batch
from tfagents_batch import suggest

_FOLDER = Path(__file__).parent / "scripts"
_NOT_COMMANDS = ("__init__", "app")
_USAGE = 64  # exit status of a wrong command line, as of the commands


def main() -> None:
    """Run the command that the command line names, as ``python -m`` runs its module."""
    found = commands()
    name, *rest = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help", "help"):
        print(_help(found))
        return
    if name == "--version":
        print(tfagents_batch.__version__)
        return
    if name not in found:
        print(f"error: {suggest.unknown('command', name, found)}", file=sys.stderr)
        sys.exit(_USAGE)
    sys.argv = [sys.argv[0], *rest]
    if not sys.flags.safe_path:
        sys.path.append("")  # for --env=module:Class; last, as a folder may be a run
    runpy.run_module(
        f"tfagents_batch.scripts.{name}", run_name="__main__", alter_sys=True
    )


def commands() -> dict[str, str]:
    """Return the commands by name with what each does, in alphabetical order."""
    found = {}
    for path in sorted(_FOLDER.glob("*.py")):
        if path.stem not in _NOT_COMMANDS:
            about = ast.get_docstring(ast.parse(path.read_text())) or ""
            found[path.stem] = about.partition(":")[0]
    return found


def _help(found: dict[str, str]) -> str:
    lines = [f"  {name:<10} {about}" for name, about in found.items()]
    return "\n".join(
        [
            "usage: tfagents-batch <command> [--flag=value ...]",
            "",
            *lines,
            "",
            "tfagents-batch <command> --help lists the flags of a command.",
        ]
    )


if __name__ == "__main__":
    main()
