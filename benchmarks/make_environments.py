"""Makes the peers' virtual environment: ``python -m benchmarks.make_environments``.

It has Stable-Baselines3, PyTorch, and this interpreter's releases of whatever the
environments are made of, so that both sides step the same code.
"""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess
import sys
from collections.abc import Sequence

from benchmarks import command, machine
from benchmarks.stepping import versions
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import app

# What Gymnasium needs for its MuJoCo tasks is named in its extra only.
PEERS = ("stable-baselines3", "psutil", "gymnasium[mujoco]")
SHARED = ("gymnasium", "numpy", "mujoco")


@dataclasses.dataclass(frozen=True)
class Command:
    """Of this script."""

    folder: str = option(str(machine.ROOT / "benchmarks/.venv"), "to make it in")
    torch: str = option("torch", "what pip is asked for, such as torch==2.13.0")
    torch_index: str = option("", "address of an index with CPU builds of PyTorch")


def main(argv: Sequence[str]) -> int:
    """Make the environment and print its interpreter."""
    flags = app.parse(argv, Command)
    if flags is None:
        return 0
    folder = pathlib.Path(flags.folder).expanduser().absolute()
    _call([sys.executable, "-m", "venv", str(folder)])
    python = str(folder / "bin/python")
    for attempt in torch_attempts(flags.torch, flags.torch_index):
        if _pip(python, *attempt):
            break
    else:
        raise UserError(f"pip could not install {flags.torch!r}; it said why above")
    if not _pip(python, *PEERS, *pins(versions(*SHARED)), flags.torch):
        raise UserError(f"pip could not install {', '.join(PEERS)}; it said why above")
    print(python)
    return 0


def torch_attempts(torch: str, index: str) -> list[list[str]]:
    """Arguments of pip, the CPU build first.

    Args:
      torch: requirement.
      index: of CPU builds; "" if there is none.
    """
    if index:
        return [[torch, "--index-url", index]]
    # A wheel in a folder that pip was told to look in; what it needs comes later.
    return [[torch, "--no-index", "--no-deps"], [torch]]


def pins(found: dict[str, str]) -> list[str]:
    """Requirements of the releases that are installed here."""
    return [f"{name}=={found[name]}" for name in SHARED if name in found]


def _pip(python: str, *arguments: str) -> bool:
    return _call([python, "-m", "pip", "install", *arguments], check=False) == 0


def _call(arguments: list[str], check: bool = True) -> int:
    command.report("+ " + " ".join(arguments))
    return subprocess.run(arguments, check=check, stdout=sys.stderr).returncode


if __name__ == "__main__":
    sys.exit(command.run(main))
