"""Imports point one way: every import statement of the package, wherever it stands.

A new arrow is a decision, made by changing ``ALLOWED`` in review.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import tfagents_batch

PACKAGE = "tfagents_batch"
ROOT = Path(tfagents_batch.__file__).parent

KERNEL = {
    *("types", "interfaces", "config", "nest", "schedules", "errors", "spaces"),
    *("seeds", "fields", "suggest", "folders", "importing"),
}
# Modules of the package root that put everything together, beside scripts.
TOP = {"api", "configs", "scripts"}
BELOW = {"envs", "sources", "algorithms", "nn", "ops", "kernel"}
ALLOWED = {
    "kernel": {"kernel"},
    "ops": {"ops", "kernel"},
    "nn": {"nn", "ops", "kernel"},
    "envs": {"envs", "kernel"},
    "sources": {"sources", "ops", "kernel"},
    "algorithms": {"nn", "ops", "kernel"},  # never another algorithm, but parts of it
    **{layer: {layer, *BELOW} for layer in ("training", "offline", "serving")},
    "distribute": {"distribute", *BELOW},
    "top": {"top", "training", "offline", "serving", "distribute", *BELOW},
}
# Other packages, where the layer is strict about them (the standard library is free).
PACKAGES = {
    "kernel": {"absl", "gymnasium", "numpy", "tensorflow"},
    "ops": {"gymnasium", "numpy", "tensorflow"},
    "envs": {"cloudpickle", "gymnasium", "numpy"},
}
# The files of envs that may import TensorFlow; workers import none of them.
GRAPH_SIDE = {
    *("process_env", "vector_env", "host_calls", "function", "make", "contract"),
    *("build", "op"),
}
GRAPH_SIDE_PACKAGE = f"{PACKAGE}.envs.tf"
# Folders of which other code imports the functions in ``__init__`` only, and the files
# that do.
FRONT_DOORS = {
    "training.compilation": {"scripts.app", "training.evaluate", "training.experiment"},
    "training.seeds": {"api"},
}


class Import(NamedTuple):
    """``line`` imports ``name``; ``module`` is it if it is a module of ours."""

    line: int
    name: str
    module: str | None


def modules() -> dict[str, str]:
    """Source of every module by dotted name."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = [PACKAGE, *path.relative_to(ROOT).with_suffix("").parts]
        name = ".".join(parts).removesuffix(".__init__")
        found[name] = path.read_text()
    return found


SOURCES = modules()


@functools.cache
def imports(source: str) -> list[Import]:
    """All imports of a module, those in functions too."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            names = [f"{start}.{alias.name}" for alias in node.names]
        else:
            names = []
        for name in names:
            module = name if name in SOURCES else name.rpartition(".")[0]
            module = module if module in SOURCES else None
            found.append(Import(node.lineno, name, module))
    return found


def layer(module: str) -> str | None:
    """None for the package itself, which imports lazily."""
    if module == PACKAGE:
        return None
    head = module.split(".")[1]
    if head in KERNEL:
        return "kernel"
    return "top" if head in TOP else head


def is_graph_side(module: str) -> bool:
    """Of a module of envs: may it import TensorFlow?"""
    inside = f"{module}.".startswith(f"{GRAPH_SIDE_PACKAGE}.")
    return inside or module.split(".")[-1] in GRAPH_SIDE


def violations(module: str, source: str) -> list[str]:
    """What a module imports though its layer may not."""
    mine, found = layer(module), []
    for line, name, target in imports(source):
        wrong = False
        if name.startswith("."):
            wrong = True  # relative imports hide the arrow
        elif name.split(".")[0] == PACKAGE:
            if target is None or target == PACKAGE:
                wrong = name not in (PACKAGE, f"{PACKAGE}.__version__")
            elif mine is not None:
                wrong = layer(target) not in ALLOWED[mine]
                registry = mine == layer(target) and module == f"{PACKAGE}.{mine}"
                part = mine == "algorithms" and target.startswith(f"{module}_")
                wrong = wrong and not (registry or part)
        elif mine in PACKAGES and name.split(".")[0] not in sys.stdlib_module_names:
            graph_side = mine == "envs" and is_graph_side(module)
            extra = {"tensorflow"} if graph_side else set()
            wrong = name.split(".")[0] not in PACKAGES[mine] | extra
        if wrong:
            found.append(f"{module}, line {line}: imports {name}")
    return found


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_a_module_imports_only_what_its_layer_may(module):
    mine = layer(module)
    assert mine is None or mine in ALLOWED, f"{module} is in no layer"
    assert violations(module, SOURCES[module]) == []


def test_there_are_no_cycles():
    graph = {
        module: {each.module for each in imports(source)} - {None, PACKAGE}
        for module, source in SOURCES.items()
        if module != PACKAGE
    }
    graphlib.TopologicalSorter(graph).prepare()  # CycleError names the cycle


def test_the_package_itself_is_used_for_its_version_only():
    for module, source in SOURCES.items():
        if layer(module) in (None, "top"):
            continue
        used = {
            node.attr
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == PACKAGE
        }
        assert used <= {"__version__"}, f"{module} uses {used} of the package"


@pytest.mark.parametrize("folder", FRONT_DOORS)
def test_a_folder_is_entered_by_its_front_door_and_where_that_is_written_down(folder):
    door, found = f"{PACKAGE}.{folder}", set()
    for module, source in SOURCES.items():
        if f"{module}.".startswith(f"{door}."):
            continue
        entered = {each.module for each in imports(source) if each.module}
        entered = {name for name in entered if f"{name}.".startswith(f"{door}.")}
        assert entered <= {door}, f"{module} imports {entered}"
        if entered:
            found.add(module.removeprefix(f"{PACKAGE}."))
    assert found == FRONT_DOORS[folder]


@pytest.mark.parametrize(
    "module, source",
    [
        ("ops.returns", "from tfagents_batch.nn import networks"),
        ("algorithms.ppo", "from tfagents_batch import envs"),
        ("algorithms.ppo", "def f():\n  from tfagents_batch.training import loop"),
        ("algorithms.a2c", "from tfagents_batch.algorithms import ppo"),
        ("algorithms.a2c", "from tfagents_batch.algorithms import ppo_settings"),
        ("algorithms.a2c", "from . import ppo"),
        ("algorithms.ppo_parts", "from tfagents_batch.algorithms import ppo"),
        ("sources.rollout", "from tfagents_batch.envs import make"),
        ("envs.worker", "def f():\n  import tensorflow"),
        ("envs.make", "from tfagents_batch.training import loop"),
        ("training.loop", "from tfagents_batch import train"),
        ("config", "from tfagents_batch.ops import returns"),
    ],
)
def test_a_forbidden_import_is_found(module, source):
    assert len(violations(f"{PACKAGE}.{module}", source)) == 1


@pytest.mark.parametrize(
    "module, source",
    [
        ("ops.returns", "import tensorflow as tf\nfrom tfagents_batch import nest"),
        ("algorithms", "from tfagents_batch.algorithms import ppo"),
        ("algorithms.ppo", "from tfagents_batch.algorithms import ppo_alarms"),
        ("envs.make", "import tensorflow as tf"),
        ("envs.worker", "import os, socket\nimport numpy as np"),
        ("scripts.train", "from tfagents_batch.training import loop"),
    ],
)
def test_an_allowed_import_is_let_pass(module, source):
    assert violations(f"{PACKAGE}.{module}", source) == []
