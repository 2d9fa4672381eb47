"""Tests that type checkers and editors know the package's functions and options."""

import ast
import inspect
import json
import pathlib
import re
import subprocess
import sys
import typing

import tfagents_batch as tfb
from tfagents_batch import api
from tfagents_batch.sources import REGISTRY
from tfagents_batch.training import options
from tfagents_batch.training.config import RunConfig

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
MISTAKES = """
import tfagents_batch as tfb

run = tfb.train(env="CartPole-v1", sed=3)
result = tfb.evaluate(run.logdir, episodes=2)
print(result.mean_retrun)
tfb.train().evaluate(action="sample")
tfb.train_offline("dqn", "table", step=20)
tfb.train(steps="many")
tfb.trian(env="CartPole-v1")
"""


def check(folder, *extra):
    """Return pyright's errors by file, as lines with their numbers."""
    settings = {
        "include": [".", *map(str, extra)],
        "extraPaths": [str(ROOT)],
        "reportMissingModuleSource": False,
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson"]
    command += ["--pythonpath", sys.executable, "--project", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] > 0
    return [
        (pathlib.Path(x["file"]).name, x["range"]["start"]["line"], x["message"])
        for x in found["generalDiagnostics"]
        if x["severity"] == "error"
    ]


def test_the_code_of_readme_docs_and_examples_has_no_type_errors(tmp_path):
    for page in PAGES:
        blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
        name = str(page.relative_to(ROOT).with_suffix(""))
        name = re.sub(r"\W", "_", name)
        for number, block in enumerate(blocks):
            (tmp_path / f"{name}_{number}.py").write_text(block)
    assert check(tmp_path, ROOT / "examples") == []


def test_misspelled_options_and_results_are_type_errors(tmp_path):
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    assert {line for _, line, _ in check(tmp_path)} == {3, 5, 6, 7, 8, 9}


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
