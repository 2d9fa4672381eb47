"""Create the peers' virtual environment: ``python -m benchmarks.make_environments``.

It contains the peers, PyTorch, JAX, and the same releases of Gymnasium and its games as
this interpreter, so that both sides step the same code. TF-Agents and batch-ppo need
another TensorFlow, and Sample Factory an older Gymnasium. ``--tf_agents``,
``--batch_ppo`` and ``--sample_factory`` create their environments.
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

# The extra of Gymnasium has the requirements of its MuJoCo tasks. SBX brings JAX and
# Optax; Optax is listed because our own JAX loop needs it too.
PEERS = (
    *("stable-baselines3", "sbx-rl", "optax", "psutil"),
    *("gymnasium[mujoco]", "ale-py", "opencv-python-headless", "minatar"),
)
SHARED = ("gymnasium", "numpy", "mujoco", "ale-py", "opencv-python-headless")

TENSORFLOW = "tensorflow-cpu==2.15.1"  # the newest with both old interfaces
TENSORFLOW_PYTHON = ((3, 9), (3, 11))  # its oldest and newest Python
TF_AGENTS = (
    # It requires a gym that newer build tools refuse because of its metadata.
    ("setuptools<66", "wheel<0.40"),
    (
        "--no-build-isolation",
        *("tf-agents==0.19.0", TENSORFLOW, "gym==0.23.0"),
        *("numpy<2", "psutil"),
    ),
)
BATCH_PPO = (
    ("setuptools<66", "wheel<0.40"),
    # Its imports; TensorFlow Probability replaces parts of TensorFlow 1.
    (TENSORFLOW, "tensorflow-probability==0.23.0", "ruamel.yaml", "numpy<2", "psutil"),
    # Without its requirement of gym, which Gymnasium replaces at import.
    ("--no-deps", "--no-build-isolation", "batch-ppo==1.4.0"),
)
# It asks for an older Gymnasium, but steps environments of the newer one too.
SAMPLE_FACTORY = (
    ("sample-factory==2.1.1", "psutil", "ale-py", "opencv-python-headless"),
)


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    tf_agents: bool = option(False, "create TF-Agents' environment instead")
    batch_ppo: bool = option(False, "create batch-ppo's environment instead")
    sample_factory: bool = option(False, "create Sample Factory's environment instead")
    folder: str = option("", "folder of the environment; by default beside this script")
    torch: str = option("torch", "requirement of PyTorch, such as torch==2.13.0")
    torch_index: str = option("", "address of an index with CPU builds of PyTorch")


def main(argv: Sequence[str]) -> int:
    """Create the environment and print the path of its interpreter."""
    flags = app.parse(argv, Command)
    if flags is None:
        return 0
    name = wanted(flags)
    if name in ("tf_agents", "batch_ppo"):
        check_python(sys.version_info[:2])
    folder = flags.folder or machine.ROOT / "benchmarks" / process.FOLDERS[name]
    folder = pathlib.Path(folder).expanduser().absolute()
    _call([sys.executable, "-m", "venv", str(folder)])
    python = str(folder / "bin/python")
    if name == "peers":
        _peers(python, flags)
    else:
        steps = {"tf_agents": TF_AGENTS, "batch_ppo": BATCH_PPO}
        steps = (steps | {"sample_factory": SAMPLE_FACTORY})[name]
        if name == "sample_factory":
            _torch(python, flags)
        for step in (*steps, gymnasium_alone(versions(*SHARED))):
            _install(python, step)
    print(python)
    return 0


def wanted(flags: Command) -> str:
    """Return the name of the interpreter to create, as in ``Contender``.

    Raises:
      UserError: if the flags select two.
    """
    kinds = "tf_agents", "batch_ppo", "sample_factory"
    names = [name for name in kinds if getattr(flags, name)]
    if len(names) > 1:
        both = " and ".join(f"--{name}" for name in names)
        raise UserError(f"{both} are separate environments; run this script for each")
    return names[0] if names else "peers"


def torch_attempts(torch: str, index: str) -> list[list[str]]:
    """Return arguments of pip to try in turn, the CPU build first.

    Args:
      torch: requirement.
      index: address of an index of CPU builds; "" if there is none.
    """
    if index:
        return [[torch, "--index-url", index]]
    # First a wheel in a folder that pip knows; its requirements are installed later.
    return [[torch, "--no-index", "--no-deps"], [torch]]


def pins(found: dict[str, str]) -> list[str]:
    """Return requirements of the releases that are installed here."""
    return [f"{name}=={found[name]}" for name in SHARED if name in found]


def gymnasium_alone(found: dict[str, str]) -> list[str]:
    """Return arguments of pip for this interpreter's Gymnasium alone.

    Its requirements are installed. Only ``typing-extensions``, which TF-Agents pins, is
    older than required; Gymnasium works with it.
    """
    return ["--no-deps", f"gymnasium=={found['gymnasium']}", "Farama-Notifications"]


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


def _peers(python: str, flags: Command) -> None:
    _torch(python, flags)
    _install(python, [*PEERS, *pins(versions(*SHARED)), flags.torch])


def _torch(python: str, flags: Command) -> None:
    for attempt in torch_attempts(flags.torch, flags.torch_index):
        if _pip(python, *attempt):
            break
    else:
        raise UserError(f"pip could not install {flags.torch!r}; see above")


def _install(python: str, arguments: Sequence[str]) -> None:
    if not _pip(python, *arguments):
        names = [each for each in arguments if not each.startswith("-")]
        raise UserError(f"pip could not install {', '.join(names)}; see above")


def _pip(python: str, *arguments: str) -> bool:
    return _call([python, "-m", "pip", "install", *arguments], check=False) == 0


def _call(arguments: list[str], check: bool = True) -> int:
    command.report("+ " + " ".join(arguments))
    return subprocess.run(arguments, check=check, stdout=sys.stderr).returncode


if __name__ == "__main__":
    sys.exit(command.run(main))
