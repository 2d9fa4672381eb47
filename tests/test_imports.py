"""Tests that imports work, are safe, and do not load TensorFlow where it is costly."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import tfagents_batch
from tests import concerned
from tests.test_layers import is_graph_side

ROOT = Path(tfagents_batch.__file__).parent
MODULES = [
    "tfagents_batch",
    *(each.name for each in pkgutil.walk_packages([ROOT], "tfagents_batch.")),
]
# Only the constructor of an environment, and what it may read, is sent as a pickle.
MAY_PICKLE = {
    "tfagents_batch.distribute.wire",
    "tfagents_batch.envs.processes.launcher",
    "tfagents_batch.envs.recipe",
    "tfagents_batch.envs.worker.inherited",
    "tfagents_batch.envs.worker.serving",
}
UNSAFE_MODULES = {
    *("pickle", "cloudpickle", "dill", "shelve", "marshal", "joblib", "yaml"),
    *("ruamel", "jsonpickle"),
}
SAFE = {"yaml": {"safe_load", "YAMLError"}}
UNSAFE_CALLS = {"eval", "exec", "__import__", "enable_unsafe_deserialization"}
UNSAFE_ARGUMENTS = {("allow_pickle", True), ("safe_mode", False), ("shell", True)}


def loaded_after(code: str) -> set[str]:
    """Return the top-level modules in a new interpreter after running ``code``."""
    code += "\nimport sys, json\nprint(json.dumps([*sys.modules]))"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return {name.partition(".")[0] for name in json.loads(result.stdout)}


def test_importing_the_package_loads_neither_tensorflow_nor_gymnasium():
    loaded = loaded_after("import tfagents_batch")
    assert not loaded & {"tensorflow", "keras", "gymnasium", "numpy", "absl"}
    assert "tensorflow" not in loaded_after("import tfagents_batch.config")


def test_the_settings_of_a_run_are_imported_without_tensorflow():
    loaded = loaded_after("import tfagents_batch.training.config")
    assert not loaded & {"tensorflow", "keras"}


def test_no_file_that_a_worker_may_import_loads_tensorflow():
    names = [
        name
        for name in MODULES
        if name.startswith("tfagents_batch.envs.") and not is_graph_side(name)
    ]
    assert "tfagents_batch.envs.worker.main" in names
    loaded = loaded_after("\n".join(f"import {name}" for name in names))
    assert "numpy" in loaded and not loaded & {"tensorflow", "keras"}


def test_every_module_imports():
    for name in MODULES:
        importlib.import_module(name)


def test_every_public_name_can_be_imported():
    for name in tfagents_batch.__all__:
        assert getattr(tfagents_batch, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = tfagents_batch.trian


def unsafe(source: str) -> list[str]:
    """Return the names in a source that could run code from data, by line."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "").partition(".")[0]]
            if {alias.name for alias in node.names} <= SAFE.get(names[0], set()):
                continue
        names = [name for name in names if name in UNSAFE_MODULES]
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            names += [called] if called in UNSAFE_CALLS else []
            names += [
                keyword.arg
                for keyword in node.keywords
                if (keyword.arg, getattr(keyword.value, "value", None))
                in UNSAFE_ARGUMENTS
            ]
        found += [f"line {node.lineno}: {name}" for name in names]
    return found


def test_no_module_runs_code_from_data():
    found = {}
    for name in set(MODULES) - MAY_PICKLE:
        path = ROOT.joinpath(*name.split(".")[1:])
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        found[name] = unsafe(path.read_text())
    assert not {name: lines for name, lines in found.items() if lines}


def test_the_check_finds_code_from_data_and_accepts_safe_code():
    for source in (
        "import pickle",
        "def f():\n  from cloudpickle import dumps",
        "builtins.exec('1')",
        "from yaml import safe_load, load",
        "np.load(path, allow_pickle=True)",
        "keras.config.enable_unsafe_deserialization()",
    ):
        assert len(unsafe(source)) == 1, source
    assert not unsafe(
        "from yaml import safe_load\nimport json\nnp.load(path)\nmodel.compile()\n"
        "env.evaluate()"
    )


def test_tests_that_import_a_file_are_listed_from_near_to_far():
    tests = concerned.tests_of([ROOT / "nn/policies/box.py"])
    assert tests[0] == "tests/nn/policies/test_box.py"
    assert "tests/algorithms/test_sac.py" in tests  # through sac.py
    assert "tests/ops/test_returns.py" not in tests
    assert len(tests) == len({*tests})
