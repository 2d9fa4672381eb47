"""Tests that type checkers and editors know the package's functions and options."""

import ast
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import typing
import venv
import zipfile

import pytest

import tfagents_batch as tfb
from tfagents_batch import api
from tfagents_batch.sources import REGISTRY
from tfagents_batch.training import options
from tfagents_batch.training.config import RunConfig

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
# A script of a user, with a mistake in every line of the second part. No type
# checker can find the last two.
SCRIPT = """
import numpy as np
import tfagents_batch as tfb
run = tfb.train(env="CartPole-v1")
"""
MISTAKES = """\
tfb.trian("ppo", env="CartPole-v1")
tfb.train("ppo", env="CartPole-v1", sed=3)
tfb.train("ppo", env="CartPole-v1", steps="many")
tfb.train("ppo", env="CartPole-v1", compile="fast")
tfb.train("ppo", "CartPole-v1", 100_000)
tfb.train_offline("dqn", "table", step=20)
tfb.train_offline("dqn", "table", mode="continous")
run.evaluate(action="sample")
tfb.evaluate(run.logdir, episodes=2).mean_retrun
tfb.evaluate(run.logdir, episodes="all")
tfb.load(run.logdir, checkpont="best")
tfb.load(run.logdir).predcit(np.zeros(4))
tfb.export(run, format="onx")
tfb.make_env("CartPole-v1", num_envs="8")
tfb.train("pppo", env="CartPole-v1")
tfb.train("ppo", settings={"epoch": 4})
"""
FOUND = 14  # of the mistakes


def installed(kind, folder):
    """Return an interpreter with the package, installed as "editable" or "wheel"."""
    source = folder / "source"
    source.mkdir()
    for name in (
        *("setup.py", "pyproject.toml", "README.md", "LICENSE"),
        "tfagents_batch",
    ):
        (source / name).symlink_to(ROOT / name)
    code = f"from setuptools import build_meta as b; b.build_{kind}({str(folder)!r})"
    run([sys.executable, "-c", code], source).check_returncode()
    venv.create(folder / "env", symlinks=True)
    (packages,) = folder.glob("env/lib/python*/site-packages")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(packages)
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "env/bin/python"


def run(command, folder):
    variables = {k: x for k, x in os.environ.items() if k != "PYTHONPATH"}
    options = {"capture_output": True, "text": True, "timeout": 280}
    return subprocess.run(command, cwd=folder, env=variables, **options)


def pyright(folder, python, **settings):
    """Return pyright's errors by file, as lines with their numbers."""
    settings = {"include": ["."], "reportMissingModuleSource": False, **settings}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson"]
    found = json.loads(run([*command, "--pythonpath", str(python)], folder).stdout)
    assert found["summary"]["filesAnalyzed"] > 0
    return [
        (pathlib.Path(x["file"]).name, x["range"]["start"]["line"] + 1, x["message"])
        for x in found["generalDiagnostics"]
        if x["severity"] == "error"
    ]


def mypy(folder, python):
    """Return the numbers of lines in which mypy finds errors."""
    command = [sys.executable, "-m", "mypy", "--python-executable", str(python)]
    cache = f"--cache-dir={folder.parents[1] / 'mypy'}"  # of all tests
    found = run([*command, cache, "."], folder)
    return {int(x) for x in re.findall(r"^\w+\.py:(\d+): error", found.stdout, re.M)}


def test_the_code_of_readme_docs_and_examples_has_no_type_errors(tmp_path):
    for page in PAGES:
        blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
        name = str(page.relative_to(ROOT).with_suffix(""))
        name = re.sub(r"\W", "_", name)
        for number, block in enumerate(blocks):
            (tmp_path / f"{name}_{number}.py").write_text(block)
    where = {"include": [".", str(ROOT / "examples")], "extraPaths": [str(ROOT)]}
    assert pyright(tmp_path, sys.executable, **where) == []


@pytest.mark.parametrize("kind", ["editable", "wheel"])
def test_type_checkers_find_mistakes_of_users(tmp_path, kind):
    python = installed(kind, tmp_path)
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "mistakes.py").write_text(SCRIPT + MISTAKES)
    first = 1 + SCRIPT.count("\n")
    lines = {*range(first, first + FOUND)}
    assert {line for _, line, _ in pyright(folder, python)} == lines
    assert mypy(folder, python) == lines


def test_type_checkers_see_the_names_that_the_package_exports():
    tree = ast.parse(inspect.getsource(tfb))
    block, _ = (x for x in tree.body if isinstance(x, ast.If))
    imported = {name.name: each.module for each in block.body for name in each.names}
    assert imported == tfb._HOMES
    assert sorted(tfb.__all__) == sorted([*tfb._HOMES, "__version__"])


def keywords(function):
    """Return the names of a function's keyword-only arguments."""
    parameters = inspect.signature(function).parameters.values()
    return {x.name for x in parameters if x.kind is x.KEYWORD_ONLY}


def test_options_of_train_are_those_of_a_run():
    expected = typing.get_type_hints(RunConfig)
    for name in ("algorithm", "env", "source", "settings", "pool"):  # of ``train``
        del expected[name]
    expected |= dict.fromkeys(REGISTRY, dict)
    assert typing.get_type_hints(options.RunOptions) == expected


def test_functions_that_pass_options_on_know_their_names():
    own = {*options.TrainOptions.__annotations__} - {
        *options.RunOptions.__annotations__
    }
    assert own == keywords(api.train) - {"settings", "source", "pool"} | {"env"}
    assert {*options.LoadOptions.__annotations__} == keywords(api.load)
    assert {*options.EvaluateOptions.__annotations__} == keywords(api.evaluate)
