"""Tests that the package imports only what the table in CONTRIBUTING.md allows.

A new dependency between folders is a decision: change that table, and have it reviewed.
"""

from __future__ import annotations

import ast
import collections
import functools
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

import tfagents_batch

PACKAGE = "tfagents_batch"
BENCHMARKS = "benchmarks"
ROOT = Path(tfagents_batch.__file__).parents[1]

PAGE = ROOT / "CONTRIBUTING.md"
MOST_MODULES = 20  # per folder
FOLDERS = (PACKAGE, BENCHMARKS, "tests")  # folders with that limit
# Modules in the root of the package that may import all its folders.
FRONT = {"api"}
# Folders that belong to the kernel, which every other one may import.
KERNEL = {"devices", "features", "settings"}
# Other packages that these folders may import, besides the standard library.
PACKAGES = {
    "kernel": {"absl", "gymnasium", "numpy", "tensorflow"},
    "ops": {"gymnasium", "numpy", "tensorflow"},
    "envs": {"cloudpickle", "gymnasium", "numpy"},
    "offline": {
        *("duckdb", "gymnasium", "minari", "numpy", "py4j", "pyarrow", "pyspark"),
    },
}
# Folders and modules of envs that may import TensorFlow; workers import none of them.
GRAPH_SIDE = ("graph", "native", "tf", "make", "recipe", "contract")
# Other code imports only the functions in ``__init__`` of these folders.
FRONT_DOORS = ("training.compilation",)


class Import(NamedTuple):
    """Import of ``name`` in ``line``; ``module`` is None for other packages."""

    line: int
    name: str
    module: str | None


def modules(*packages: str) -> dict[str, str]:
    """Return the source of every module of these packages, by dotted name."""
    found = {}
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path.read_text()
    return found


SOURCES = modules(PACKAGE, BENCHMARKS)


def imported_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of all imports of a module, also those in functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            for alias in node.names:
                yield node.lineno, f"{start}.{alias.name}"


def module_of(name: str, sources: Mapping[str, str]) -> str | None:
    """Return the module that an import of a name reads; None for other packages."""
    name = name if name in sources else name.rpartition(".")[0]
    return name if name in sources else None


@functools.cache
def imports(source: str) -> list[Import]:
    """Return all imports of a module of package or benchmarks."""
    rows = imported_names(source)
    return [Import(line, name, module_of(name, SOURCES)) for line, name in rows]


@functools.cache
def folder(module: str) -> str | None:
    """Return the folder of a module as in the table; None for the package itself."""
    path = module.split(".")[0 if module.startswith(BENCHMARKS) else 1 :]
    if not path:
        return None
    if not any(name.startswith(f"{module}.") for name in SOURCES):
        path = path[:-1]
    if KERNEL.intersection(path[:1]):
        return "kernel"
    if not path:
        return "front" if module.split(".")[1] in FRONT else "kernel"
    return "/".join(path)


def table() -> dict[str, set[str]]:
    """Return the folders that each folder may import, besides itself and the kernel."""
    rows = re.findall(r"^\| `([\w/]+)` \|.*\|(.*)\|$", PAGE.read_text(), re.M)
    return {name: set(re.findall(r"`([\w/]+)`", allowed)) for name, allowed in rows}


ALLOWED = table()


def is_graph_side(module: str) -> bool:
    """Return True if a module of envs may import TensorFlow."""
    return module.split(".")[2:3] != [] and module.split(".")[2] in GRAPH_SIDE


def violations(module: str, source: str) -> list[str]:
    """Return the imports of a module that its folder may not have."""
    mine, found = folder(module), []
    for line, name, target in imports(source):
        wrong = False
        if name.startswith("."):
            wrong = True  # relative imports hide the folder
        elif name.split(".")[0] == BENCHMARKS:
            wrong = target is None or folder(target) not in {mine} | ALLOWED[mine]
        elif module.startswith(BENCHMARKS):
            wrong = False
        elif name.split(".")[0] == PACKAGE:
            if target is None or target == PACKAGE:
                wrong = name not in (PACKAGE, f"{PACKAGE}.__version__")
            elif mine is not None:
                wrong = folder(target) not in {mine, "kernel"} | ALLOWED[mine]
                if mine == folder(target) == "algorithms":  # its own parts are allowed
                    registry = module == f"{PACKAGE}.{mine}"
                    wrong = not (registry or _is_part(target, module))
        elif name.split(".")[0] not in sys.stdlib_module_names:
            top = (mine or "").partition("/")[0]
            graph_side = top == "envs" and is_graph_side(module)
            extra = {"tensorflow"} if graph_side else set()
            allowed = PACKAGES.get(top, {name.split(".")[0]}) | extra
            wrong = name.split(".")[0] not in allowed
        if wrong:
            found.append(f"{module}, line {line}: imports {name}")
    return found


def _is_part(target: str, module: str) -> bool:
    """Return whether a module is a part of the other one, as ``sac_cql`` of ``sac``."""
    return target.startswith(f"{module}_")


def test_modules_import_only_what_their_folders_may():
    folders = set(map(folder, SOURCES)) - {None}
    assert folders <= set(ALLOWED), "CONTRIBUTING.md lacks a line of a folder"
    assert [x for each in SOURCES.items() for x in violations(*each)] == []


def arrows() -> dict[str, set[str]]:
    """Return the folders that each folder imports, without itself and the kernel."""
    found: dict[str, set[str]] = {name: set() for name in ALLOWED}
    for module, source in SOURCES.items():
        if (mine := folder(module)) is not None:
            own = module.split(".")[0] + "."  # benchmarks may import all of the package
            names = {each.module for each in imports(source) if each.module}
            targets = {folder(name) for name in names if f"{name}.".startswith(own)}
            found[mine] |= targets - {None, mine, "kernel"}
    return found


def test_the_table_of_folders_lists_exactly_the_imports():
    assert arrows() == ALLOWED


def test_sibling_folders_have_no_import_cycles():
    graph = {
        mine: {each for each in found if not _inside(mine, each)}
        for mine, found in arrows().items()
    }
    graphlib.TopologicalSorter(graph).prepare()  # CycleError names the cycle


def _inside(one: str, other: str) -> bool:
    """Return True if one of two folders is inside the other."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def test_no_folder_has_too_many_modules():
    files = [each for top in FOLDERS for each in (ROOT / top).rglob("*.py")]
    count = collections.Counter(str(each.parent) for each in files)
    assert not {k: v for k, v in count.items() if v > MOST_MODULES}


def test_modules_have_no_import_cycles():
    graph = {
        module: {each.module for each in imports(source)} - {None, PACKAGE}
        for module, source in SOURCES.items()
        if module != PACKAGE
    }
    graphlib.TopologicalSorter(graph).prepare()  # CycleError names the cycle


def test_modules_import_only_the_version_from_the_package():
    for module, source in SOURCES.items():
        top = (folder(module) or "").partition("/")[0]
        if top in ("", "front", "scripts", BENCHMARKS):
            continue
        used = {
            node.attr
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == PACKAGE
        }
        assert used <= {"__version__"}, f"{module} uses {used} of the package"


def test_training_imports_nothing_of_logged_decisions_and_serving():
    rest = "offline", "logged", "evaluation", "serving", "configs", "front", "scripts"
    pairs = {(x, y) for x, allowed in ALLOWED.items() for y in allowed}
    joined = {(x, y) for x, y in pairs if y.startswith(rest) and not x.startswith(rest)}
    assert joined == {("sources", "logged"), ("distribute", "offline/reading")}


def test_logged_decisions_and_the_server_import_no_tensorflow():
    rooms = "features", "offline", "evaluation", "serving"
    learn = {
        "fitted_q",
        "policies",
        "export",
        "parity",
        "decision_function",
        "functions",
    }
    learn |= {"onnx", "saved_model", "litert"}
    parts = tuple(f"{PACKAGE}.{name}." for name in rooms)
    names = [x for x in SOURCES if x.startswith(parts) and not {*x.split(".")} & learn]
    code = "import importlib, sys\n"
    code += f"for name in {names}: importlib.import_module(name)\n"
    code += "assert not {'tensorflow', 'keras'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("name", FRONT_DOORS)
def test_other_folders_import_only_the_public_modules_of_a_folder(name):
    door = f"{PACKAGE}.{name}"
    for module, source in SOURCES.items():
        entered = {each.module for each in imports(source) if each.module}
        entered = {each for each in entered if each.startswith(f"{door}.")}
        assert not entered or f"{module}.".startswith(f"{door}."), (module, entered)


@pytest.mark.parametrize(
    "module, source",
    [
        ("ops.returns", "from tfagents_batch.nn import networks"),
        ("algorithms.ppo", "from tfagents_batch import envs"),
        ("algorithms.ppo", "def f():\n  from tfagents_batch.training import loop"),
        ("algorithms.a2c", "from tfagents_batch.algorithms import ppo"),
        ("algorithms.a2c", "from . import ppo"),
        ("algorithms.ppo_parts", "from tfagents_batch.algorithms import ppo"),
        ("sources.rollout", "from tfagents_batch.envs import make"),
        ("envs.worker.main", "def f():\n  import tensorflow"),
        ("envs.make", "from tfagents_batch.training import loop"),
        ("training.loop", "from tfagents_batch import train"),
        ("config", "from tfagents_batch.ops import returns"),
        ("config", "from benchmarks.work import stepping"),
    ],
)
def test_a_forbidden_import_is_found(module, source):
    assert len(violations(f"{PACKAGE}.{module}", source)) == 1
