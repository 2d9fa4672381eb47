"""Packaging; see BUILD.md."""

import pathlib
import re

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).parent
VERSION = re.search(
    r'^__version__ = "(.+)"', (HERE / "tfagents_batch/__init__.py").read_text(), re.M
)[1]

EXTRAS = {
    "gym": ["gym==0.26.2"],  # the last release; its step needs our adapter with numpy 2
    "atari": ["ale-py>=0.11", "opencv-python-headless>=4.8"],
    "mujoco": ["gymnasium[mujoco]", "mujoco>=3.3"],
    "box2d": ["gymnasium[box2d]"],
    "envpool": ["envpool>=1.2"],
    "dm": ["dm-env>=1.6"],
    # Gymnasium chooses between pygame and pygame-ce, which install the same folder.
    "video": ["imageio-ffmpeg>=0.5", "gymnasium[classic-control]"],
    "plot": ["matplotlib>=3.8"],
    "offline": ["duckdb>=2", "pyarrow>=18"],
    "ray": ["ray>=2.40"],
    "spark": ["duckdb>=2", "pyarrow>=18", "pyspark>=4,<5"],  # and Java 17
    # tf2onnx is no longer maintained for new versions of TensorFlow.
    "export": [
        "ai-edge-litert>=2",
        "onnx>=1.17",
        "onnxruntime>=1.20",
        "orjson>=3.10",
        "tf2onnx==1.17.0",
    ],
    "serve": ["granian[uvloop]>=2.8,<3", "onnxruntime>=1.20", "orjson>=3.10"],
    "tune": ["optuna>=4"],
    "wandb": ["wandb>=0.17"],
    "mlflow": ["mlflow>=2.14"],
    # Exact versions, because the build of the site treats warnings as errors.
    "docs": [
        "markdown==3.11.3",
        "mkdocs==1.6.1",
        "mkdocs-material==9.8.2",
        "mkdocstrings==1.0.8",
        "mkdocstrings-python==2.0.11",
        "griffelib==2.4.1",
    ],
    # The CPU build of torch is to be installed first; any other brings gigabytes.
    # Best in an interpreter of its own (benchmarks.make_environments): SBX brings JAX
    # and a nightly build of TensorFlow Probability.
    "bench": [
        "ale-py>=0.11",
        "fastapi>=0.115",
        "gymnasium[mujoco]",
        "onnxruntime>=1.20",
        "opencv-python-headless>=4.8",
        "optax",
        "psutil>=5.9",
        "sb3-contrib",
        "sbx-rl",
        "stable-baselines3",
        "torch",
        "uvicorn[standard]>=0.34",
    ],
}
TOOLS = [
    "codespell>=2.4",
    "hypothesis>=6.100",
    "minatar>=1.0.15",  # the oracle of our games
    "mypy>=1.18",
    "onnx>=1.17",  # makes the exports of tests
    "pandas>=2.2",
    "psutil>=5.9",
    "pyright[nodejs]==1.1.414",  # the gate is to find what it found before
    "pytest>=8",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.5",
    "requests>=2.31",
    "ruff>=0.12",
    "scipy>=1.14",  # the oracle of tests of normality
    "tensorflow-probability>=0.25",  # the oracle of our distributions, with Keras 2
    "tf-keras>=2.21,<2.22",
]
IN_DEV = (
    "gym",
    "atari",
    "mujoco",
    "box2d",
    "dm",
    "video",
    "plot",
    "offline",
    "export",
    "serve",
    "tune",
    "docs",
)
IN_DEV_ALL = ("envpool", "ray", "spark")  # 1.5 GB, which few tests need
EXTRAS["dev"] = TOOLS + [package for extra in IN_DEV for package in EXTRAS[extra]]
EXTRAS["dev-all"] = EXTRAS["dev"] + [
    package for extra in IN_DEV_ALL for package in EXTRAS[extra]
]

setup(
    name="tfagents_batch",
    version=VERSION,
    description="Batched reinforcement learning inside the TensorFlow graph",
    long_description=(HERE / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    author="The authors of tfagents_batch",
    keywords="reinforcement-learning tensorflow keras xla gymnasium ppo dqn sac",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: C++",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    # So an editable install is a path, which type checkers read; by default it is code.
    package_dir={"": "."},
    packages=find_packages(include=["tfagents_batch", "tfagents_batch.*"]),
    package_data={
        "tfagents_batch": ["py.typed"],
        "tfagents_batch.envs.native": ["*.cc", "*.h"],
    },
    entry_points={"console_scripts": ["tfagents-batch = tfagents_batch.__main__:main"]},
    python_requires=">=3.11,<3.14",
    install_requires=[
        "tensorflow>=2.21,<2.22",  # a release is taken in when the tests passed on it
        "keras>=3.13.2",  # older ones execute code when a model file is loaded
        "gymnasium>=1.2,<2",
        "numpy>=1.26",
        "ml_dtypes<0.7",  # TensorFlow's; 0.7.0 takes 0.6 s to import
        "cloudpickle>=3",
        "absl-py>=2.1",
        "rich>=13",
        "packaging",
        "tensorboard>=2.19",  # TensorFlow 2.21 no longer brings it
    ],
    extras_require=EXTRAS,
)
