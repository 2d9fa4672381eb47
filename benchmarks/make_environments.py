"""Create the peers' virtual environments: ``python -m benchmarks.make_environments``.

Without a flag, it contains Stable-Baselines3, SBX, PyTorch, JAX, and the same releases
of Gymnasium and its games as this interpreter, so that both sides step the same code.
"""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.measure import command, process
from benchmarks.work import machine
from benchmarks.work.works import versions
from tfagents_batch.config import option
from tfagents_batch.errors import UserError

# The extra of Gymnasium has the requirements of its MuJoCo tasks. SBX brings JAX and
# Optax; Optax is listed because our own JAX loop needs it too.
PEERS = (
    *("stable-baselines3", "sbx-rl", "optax", "psutil"),
    *("gymnasium[mujoco]", "ale-py", "opencv-python-headless", "minatar"),
)
SHARED = ("gymnasium", "numpy", "mujoco", "ale-py", "opencv-python-headless")

TENSORFLOW = "tensorflow-cpu==2.15.1"  # the newest with both old interfaces
TENSORFLOW_PYTHON = ((3, 9), (3, 11))  # its oldest and newest Python
# Old packages have metadata that newer build tools refuse.
_BUILD = ("setuptools<66", "wheel<0.40")
# Arguments of pip for each of the other interpreters, in order.
OTHERS = {
    "tf_agents": (
        _BUILD,
        (
            "--no-build-isolation",
            *("tf-agents==0.19.0", TENSORFLOW, "gym==0.23.0", "numpy<2", "psutil"),
        ),
    ),
    "batch_ppo": (
        _BUILD,
        # Its imports; TensorFlow Probability replaces parts of TensorFlow 1.
        (
            *(TENSORFLOW, "tensorflow-probability==0.23.0", "ruamel.yaml"),
            *("numpy<2", "psutil"),
        ),
        # Without its requirement of gym, which Gymnasium replaces at import.
        ("--no-deps", "--no-build-isolation", "batch-ppo==1.4.0"),
    ),
    # It asks for an older Gymnasium, but steps environments of the newer one too.
    "sample_factory": (
        ("sample-factory==2.1.1", "psutil", "ale-py", "opencv-python-headless"),
    ),
}


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    tf_agents: bool = option(False, "create TF-Agents' environment instead")
    batch_ppo: bool = option(False, "create batch-ppo's environment instead")
    sample_factory: bool = option(False, "create Sample Factory's environment instead")
    folder: str = option("", "folder of the environment; by default beside this script")
    torch: str = option("torch", "requirement of PyTorch, such as torch==2.13.0")
    torch_index: str = option("", "address of an index with CPU builds of PyTorch")


def main(flags: Command) -> int:
    """Create the environment and print the path of its interpreter."""
    names = [name for name in OTHERS if getattr(flags, name)]
    if len(names) > 1:
        both = " and ".join(f"--{name}" for name in names)
        raise UserError(f"{both} are separate environments; run this script for each")
    name = names[0] if names else "peers"
    if name in ("tf_agents", "batch_ppo"):
        check_python(sys.version_info[:2])
    folder = flags.folder or machine.ROOT / "benchmarks" / process.FOLDERS[name]
    folder = pathlib.Path(folder).expanduser().absolute()
    _call([sys.executable, "-m", "venv", str(folder)])
    python, found = str(folder / "bin/python"), versions(*SHARED)
    if name in ("peers", "sample_factory"):
        _install_torch(python, flags)
    if name == "peers":
        pins = [f"{each}=={found[each]}" for each in SHARED if each in found]
        steps = [[*PEERS, *pins, flags.torch]]
    else:
        # This interpreter's Gymnasium, whose requirements are installed. Only
        # typing-extensions, which TF-Agents pins, is older than required; it suffices.
        gymnasium = f"gymnasium=={found['gymnasium']}"
        steps = [*OTHERS[name], ["--no-deps", gymnasium, "Farama-Notifications"]]
    for step in steps:
        if not _pip(python, *step):
            packages = ", ".join(each for each in step if not each.startswith("-"))
            raise UserError(f"pip could not install {packages}; see above")
    print(python)
    return 0


def check_python(version: Sequence[int]) -> None:
    """Refuse a Python for which TensorFlow 2.15 has no build.

    Raises:
      UserError: naming the versions that have one.
    """
    oldest, newest = TENSORFLOW_PYTHON
    if not oldest <= tuple(version) <= newest:
        got, least, most = (".".join(map(str, x)) for x in (version, oldest, newest))
        raise UserError(
            f"TF-Agents and batch-ppo need TensorFlow 2.15, which has no build for "
            f"Python {got}; run this script with Python {least} to {most}"
        )


def _install_torch(python: str, flags: Command) -> None:
    """Install PyTorch, if possible its CPU build: from an index or a folder of pip."""
    attempts = [["--index-url", flags.torch_index]]
    if not flags.torch_index:
        # The requirements of a wheel in a folder are installed later.
        attempts = [["--no-index", "--no-deps"], []]
    if not any(_pip(python, flags.torch, *each) for each in attempts):
        raise UserError(f"pip could not install {flags.torch!r}; see above")


def _pip(python: str, *arguments: str) -> bool:
    return _call([python, "-m", "pip", "install", *arguments], check=False) == 0


def _call(arguments: list[str], check: bool = True) -> int:
    process.report("+ " + " ".join(arguments))
    return subprocess.run(arguments, check=check, stdout=sys.stderr).returncode


if __name__ == "__main__":
    command.run(Command, main)
