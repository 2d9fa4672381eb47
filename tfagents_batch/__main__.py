"""All commands: ``tfagents-batch train``, or ``python -m tfagents_batch train``."""

from __future__ import annotations

import ast
import importlib
import sys
import traceback
from pathlib import Path

import tfagents_batch
from tfagents_batch.settings import suggest

_FOLDER = Path(__file__).parent / "scripts"
_NOT_COMMANDS = ("__init__", "command_line")
_USAGE, _CRASH = 64, 70  # exit statuses, as of the commands


def main() -> None:
    """Run the command that the command line names, see ``command_line.run``."""
    name, *rest = sys.argv[1:] or ["--help"]
    if name == "help" and rest:
        name, rest = rest[0], ["--help"]
    if name in ("-h", "--help", "help"):
        print(_help())
        return
    if name == "--version":
        print(tfagents_batch.__version__)
        return
    if name not in (known := _modules()):
        print(f"error: {suggest.unknown('command', name, known)}", file=sys.stderr)
        sys.exit(_USAGE)
    sys.argv = [sys.argv[0], *rest]
    if not sys.flags.safe_path:
        sys.path.append("")  # for --env=module:Class; last, as a folder may be a run
    try:
        command, command_line = (
            importlib.import_module(f"tfagents_batch.scripts.{module}")
            for module in (name, "command_line")
        )
    except Exception:  # such as a package that is broken
        traceback.print_exc()
        sys.exit(_CRASH)
    trains, early = getattr(command, "TRAINS", False), getattr(command, "early", None)
    sys.exit(command_line.run(command.main, trains, early))


def commands() -> dict[str, str]:
    """Return the commands by name with what each does, in alphabetical order."""
    abouts = {}
    for name, path in _modules().items():
        about = ast.get_docstring(ast.parse(path.read_text())) or ""
        abouts[name] = about.partition(":")[0]
    return abouts


def _modules() -> dict[str, Path]:
    """Return the files of the commands by name; they are read for the help only."""
    files = {path.stem: path for path in sorted(_FOLDER.glob("*.py"))}
    return {name: path for name, path in files.items() if name not in _NOT_COMMANDS}


def _help() -> str:
    lines = [f"  {name:<10} {about}" for name, about in commands().items()]
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
