"""Create the peers' virtual environments: ``python -m benchmarks.make_environments``.

By default it contains Stable-Baselines3, SBX, PyTorch, JAX, and the same releases of
Gymnasium and its games as this interpreter, so that both sides step the same code.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Literal

from benchmarks.measure import command, process
from benchmarks.work import machine
from benchmarks.work.works import versions
from tfagents_batch.config import option
from tfagents_batch.errors import UserError

# The extra of Gymnasium has the requirements of its MuJoCo tasks. SBX brings JAX and
# Optax; Optax is listed because our own JAX loop needs it too.
PEERS = (
    *("stable-baselines3", "sb3-contrib", "sbx-rl", "optax", "psutil"),
    *("gymnasium[mujoco]", "ale-py", "opencv-python-headless"),
    *("fastapi", "onnxruntime", "uvicorn[standard]"),
)
_INSTALLED = versions(
    "gymnasium", "numpy", "mujoco", "ale-py", "opencv-python-headless"
)
_SAME = [f"{name}=={_INSTALLED[name]}" for name in _INSTALLED if name != "python"]
# This interpreter's Gymnasium, whose requirements the others have. Only
# typing-extensions, which TF-Agents pins, is older than required; it suffices.
_GYMNASIUM = ("--no-deps", _SAME[0], "Farama-Notifications")
# The newest TensorFlow with both old interfaces, for Python 3.9 to 3.11.
_OLD = ("tensorflow-cpu==2.15.1", "numpy<2", "psutil")
# Old packages have metadata that newer build tools refuse.
_BUILD = ("setuptools<66", "wheel<0.40")
# It asks for an older Gymnasium; these are its imports.
_D3RLPY = (
    *("--no-deps", "d3rlpy==2.8.1", "gym==0.26.2", "gym-notices", "structlog"),
    *("dataclasses-json", "marshmallow", "typing-inspect", "mypy-extensions"),
    *("colorama", "h5py", "scikit-learn", "scipy", "joblib", "threadpoolctl"),
    *("tqdm", "click", "narwhals"),
)
# Arguments of pip for each environment, one list for each call.
STEPS = {
    "peers": ((*PEERS, *_SAME), _D3RLPY),
    "tf_agents": (
        _BUILD,
        ("--no-build-isolation", "tf-agents==0.19.0", "gym==0.23.0", *_OLD),
        _GYMNASIUM,
    ),
    # Its imports; TensorFlow Probability replaces parts of TensorFlow 1, and Gymnasium
    # replaces gym.
    "batch_ppo": (
        _BUILD,
        ("tensorflow-probability==0.23.0", "tf-slim==1.1.0", "ruamel.yaml", *_OLD),
        ("--no-deps", "--no-build-isolation", "batch-ppo==1.4.0"),
        _GYMNASIUM,
    ),
    # These two ask for an older Gymnasium, but step environments of the newer one too.
    "sample_factory": (
        ("sample-factory==2.1.1", "psutil", "ale-py", "opencv-python-headless"),
        _GYMNASIUM,
    ),
    "rllib": (("ray[rllib]==2.60.0", "psutil"), _GYMNASIUM),
    # Requirements of the modules that benchmarks.open_bandit imports from a wheel.
    "obp": (("numpy<2", "pandas<3", "scikit-learn<2", "scipy<2"),),
}


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    name: Literal[
        "peers", "tf_agents", "batch_ppo", "sample_factory", "rllib", "obp"
    ] = option("peers", "environment to create")
    torch: str = option("torch", "requirement of PyTorch, such as torch==2.13.0")
    torch_index: str = option("", "address of an index with CPU builds of PyTorch")


def main(flags: Command) -> int:
    """Create the environment and print the path of its interpreter."""
    folder = machine.ROOT / "benchmarks" / process.FOLDERS[flags.name]
    _call(sys.executable, "-m", "venv", str(folder))
    python = str(folder / "bin/python")
    steps = [*STEPS[flags.name]]
    if flags.name in ("peers", "sample_factory", "rllib"):
        index = ("--index-url", flags.torch_index) if flags.torch_index else ()
        steps.insert(0, (flags.torch, *index))
    for step in steps:
        _call(python, "-m", "pip", "install", *step)
    print(python)
    return 0


def _call(*arguments: str) -> None:
    process.report("+ " + " ".join(arguments))
    if subprocess.run(arguments, stdout=sys.stderr).returncode:
        raise UserError(f"{' '.join(arguments)} failed; see above")


if __name__ == "__main__":
    command.run(Command, main)
