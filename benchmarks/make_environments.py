"""Makes the peers' virtual environment: ``python -m benchmarks.make_environments``.

It has the peers, PyTorch and JAX, and this interpreter's releases of whatever the
environments are made of, so that both sides step the same code. TF-Agents, whose
TensorFlow is another, gets an environment of its own with ``--tf_agents``.
"""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess
import sys
from collections.abc import Sequence

from benchmarks import command, machine, process
from benchmarks.stepping import versions
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import app

# What Gymnasium needs for its MuJoCo tasks is named in its extra only. JAX comes with
# SBX; Optax, which SBX brings too, is what our own JAX loop needs beside it.
PEERS = (
    *("stable-baselines3", "sbx-rl", "envpool", "optax", "psutil"),
    *("gymnasium[mujoco]", "ale-py", "opencv-python-headless"),
)
SHARED = ("gymnasium", "numpy", "mujoco", "ale-py", "opencv-python-headless")

TF_AGENTS = (
    # It asks for a Gym whose metadata newer tools for building refuse.
    ("setuptools<66", "wheel<0.40"),
    (
        "--no-build-isolation",
        *("tf-agents==0.19.0", "tensorflow-cpu==2.15.1", "gym==0.23.0"),
        *("numpy<2", "psutil"),
    ),
)
TF_AGENTS_PYTHON = ((3, 9), (3, 11))  # oldest and newest of that TensorFlow


@dataclasses.dataclass(frozen=True)
class Command:
    """Of this script."""

    tf_agents: bool = option(False, "make TF-Agents' environment instead")
    folder: str = option("", "to make it in; beside this script if none")
    torch: str = option("torch", "what pip is asked for, such as torch==2.13.0")
    torch_index: str = option("", "address of an index with CPU builds of PyTorch")


def main(argv: Sequence[str]) -> int:
    """Make the environment and print its interpreter."""
    flags = app.parse(argv, Command)
    if flags is None:
        return 0
    name = "tf_agents" if flags.tf_agents else "peers"
    if flags.tf_agents:
        check_python(sys.version_info[:2])
    folder = flags.folder or machine.ROOT / "benchmarks" / process.FOLDERS[name]
    folder = pathlib.Path(folder).expanduser().absolute()
    _call([sys.executable, "-m", "venv", str(folder)])
    python = str(folder / "bin/python")
    if flags.tf_agents:
        for step in (*TF_AGENTS, gymnasium_alone(versions(*SHARED))):
            _install(python, step)
    else:
        _peers(python, flags)
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


def gymnasium_alone(found: dict[str, str]) -> list[str]:
    """Arguments of pip for this interpreter's Gymnasium, beside TF-Agents.

    What Gymnasium needs is there, but TF-Agents pins ``typing-extensions`` to a
    release that is older than the one Gymnasium asks for and works with it.
    """
    return ["--no-deps", f"gymnasium=={found['gymnasium']}", "Farama-Notifications"]


def check_python(version: Sequence[int]) -> None:
    """Refuse a Python that TF-Agents' TensorFlow does not exist for.

    Raises:
      UserError: naming the versions that it exists for.
    """
    oldest, newest = TF_AGENTS_PYTHON
    if not oldest <= tuple(version) <= newest:
        got, least, most = (".".join(map(str, x)) for x in (version, oldest, newest))
        raise UserError(
            f"TF-Agents 0.19 needs TensorFlow 2.15, which has no build for Python "
            f"{got}; run this script with Python {least} to {most}"
        )


def _peers(python: str, flags: Command) -> None:
    for attempt in torch_attempts(flags.torch, flags.torch_index):
        if _pip(python, *attempt):
            break
    else:
        raise UserError(f"pip could not install {flags.torch!r}; it said why above")
    _install(python, [*PEERS, *pins(versions(*SHARED)), flags.torch])


def _install(python: str, arguments: Sequence[str]) -> None:
    if not _pip(python, *arguments):
        names = [each for each in arguments if not each.startswith("-")]
        raise UserError(f"pip could not install {', '.join(names)}; it said why above")


def _pip(python: str, *arguments: str) -> bool:
    return _call([python, "-m", "pip", "install", *arguments], check=False) == 0


def _call(arguments: list[str], check: bool = True) -> int:
    command.report("+ " + " ".join(arguments))
    return subprocess.run(arguments, check=check, stdout=sys.stderr).returncode


if __name__ == "__main__":
    sys.exit(command.run(main))
