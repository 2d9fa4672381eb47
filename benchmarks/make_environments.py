"""Makes the peers' virtual environment: ``python -m benchmarks.make_environments``.

It has the peers, PyTorch and JAX, and this interpreter's releases of whatever the
environments are made of, so that both sides step the same code. TF-Agents and
batch-ppo, whose TensorFlow is another, get environments of their own with
``--tf_agents`` and ``--batch_ppo``.
"""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.measure import command, process
from benchmarks.work import machine
from benchmarks.work.stepping import versions
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import app

# What Gymnasium needs for its MuJoCo tasks is named in its extra only. JAX comes with
# SBX; Optax, which SBX brings too, is what our own JAX loop needs beside it.
PEERS = (
    *("stable-baselines3", "sbx-rl", "optax", "psutil"),
    *("gymnasium[mujoco]", "ale-py", "opencv-python-headless"),
)
SHARED = ("gymnasium", "numpy", "mujoco", "ale-py", "opencv-python-headless")

TENSORFLOW = "tensorflow-cpu==2.15.1"  # the newest that has both old interfaces
TENSORFLOW_PYTHON = ((3, 9), (3, 11))  # oldest and newest of it
TF_AGENTS = (
    # It asks for a Gym whose metadata newer tools for building refuse.
    ("setuptools<66", "wheel<0.40"),
    (
        "--no-build-isolation",
        *("tf-agents==0.19.0", TENSORFLOW, "gym==0.23.0"),
        *("numpy<2", "psutil"),
    ),
)
BATCH_PPO = (
    ("setuptools<66", "wheel<0.40"),
    # What it imports, TensorFlow Probability in the place of what TensorFlow 1 had.
    (TENSORFLOW, "tensorflow-probability==0.23.0", "ruamel.yaml", "numpy<2", "psutil"),
    # By itself: it asks for a Gym, and gets Gymnasium as its gym when it is imported.
    ("--no-deps", "--no-build-isolation", "batch-ppo==1.4.0"),
)


@dataclasses.dataclass(frozen=True)
class Command:
    """Of this script."""

    tf_agents: bool = option(False, "make TF-Agents' environment instead")
    batch_ppo: bool = option(False, "make batch-ppo's environment instead")
    folder: str = option("", "to make it in; beside this script if none")
    torch: str = option("torch", "what pip is asked for, such as torch==2.13.0")
    torch_index: str = option("", "address of an index with CPU builds of PyTorch")


def main(argv: Sequence[str]) -> int:
    """Make the environment and print its interpreter."""
    flags = app.parse(argv, Command)
    if flags is None:
        return 0
    name = wanted(flags)
    if name != "peers":
        check_python(sys.version_info[:2])
    folder = flags.folder or machine.ROOT / "benchmarks" / process.FOLDERS[name]
    folder = pathlib.Path(folder).expanduser().absolute()
    _call([sys.executable, "-m", "venv", str(folder)])
    python = str(folder / "bin/python")
    if name == "peers":
        _peers(python, flags)
    else:
        steps = {"tf_agents": TF_AGENTS, "batch_ppo": BATCH_PPO}[name]
        for step in (*steps, gymnasium_alone(versions(*SHARED))):
            _install(python, step)
    print(python)
    return 0


def wanted(flags: Command) -> str:
    """The interpreter that is to be made, as a ``Contender`` names it.

    Raises:
      UserError: for two at once.
    """
    names = [name for name in ("tf_agents", "batch_ppo") if getattr(flags, name)]
    if len(names) > 1:
        raise UserError(
            "--tf_agents and --batch_ppo are two environments; run this script twice"
        )
    return names[0] if names else "peers"


def torch_attempts(torch: str, index: str) -> list[list[str]]:
    """Arguments of pip, the CPU build first.

    Args:
      torch: requirement.
      index: of CPU builds; "" if there is none.
    """
    if index:
        return [[torch, "--index-url", index]]
    # A wheel in a folder that pip was given; its requirements are installed later.
    return [[torch, "--no-index", "--no-deps"], [torch]]


def pins(found: dict[str, str]) -> list[str]:
    """Requirements of the releases that are installed here."""
    return [f"{name}=={found[name]}" for name in SHARED if name in found]


def gymnasium_alone(found: dict[str, str]) -> list[str]:
    """Arguments of pip for this interpreter's Gymnasium, beside an old TensorFlow.

    What Gymnasium needs is there, but TF-Agents pins ``typing-extensions`` to a
    release that is older than the one Gymnasium asks for and works with it.
    """
    return ["--no-deps", f"gymnasium=={found['gymnasium']}", "Farama-Notifications"]


def check_python(version: Sequence[int]) -> None:
    """Refuse a Python that TensorFlow 2.15 does not exist for.

    Raises:
      UserError: naming the versions that it exists for.
    """
    oldest, newest = TENSORFLOW_PYTHON
    if not oldest <= tuple(version) <= newest:
        got, least, most = (".".join(map(str, x)) for x in (version, oldest, newest))
        raise UserError(
            f"TF-Agents and batch-ppo get TensorFlow 2.15, which has no build for "
            f"Python {got}; run this script with Python {least} to {most}"
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
