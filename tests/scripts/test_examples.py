"""The scripts and notebooks of examples/ run as they are, with little training."""

import ast
import contextlib
import io
import json
import pathlib
import subprocess
from types import SimpleNamespace

import pytest

from tests.support import brief
from tfagents_batch.envs.shared import cpus
from tfagents_batch.scripts import train

FOLDER = pathlib.Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py"))
ELSEWHERE = "reinforce_on_spark.py"  # runs in tests/distribute/test_spark_pool.py
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
LINES = 40
# Need PPO's own policy: its loss, its network, masks, or an export.
PPO = ("dict_with_mask.py", "own_algorithm.py", "own_network.py", "self_play.py")
LESS = {  # text of the examples, and what the tests run instead
    "EPISODES = 300": "EPISODES = 5",
    "ITERATIONS = 40": "ITERATIONS = 1",
    "SEEDS = (3e-4, 2e-3), (1, 2, 3)": "SEEDS = (3e-4,), (1, 2)",
    "SEEDS = (1, 2, 3, 4, 5)": "SEEDS = (1, 2)",
    "((12,), (4, 8, 12))": "((1, 2),)",
    "(0.0, 1.0)": "(1.0,)",
    "(3e-4, 3e-3)": "(3e-3,)",
    "jit_compile=True": "jit_compile=False",
    "ppo.PPOConfig(epochs=4)": "ppo.PPOConfig(epochs=1, histograms=False)",
    "TimeLimit(Target(), 50)": "TimeLimit(Target(), 5)",
    "length=128": "length=8",
    'num_envs": 256': 'num_envs": 4',
    "range(3)": "range(2)",
}


def notebook(name):
    return json.loads((FOLDER / name).read_text())["cells"]


def code_of(name):
    """Return the code of a script or of a notebook's cells."""
    if name.endswith(".py"):
        return (FOLDER / name).read_text()
    cells = ["".join(x["source"]) for x in notebook(name) if x["cell_type"] == "code"]
    return "\n".join(cells)


def train_here(monkeypatch):
    """Run the train commands of examples in this process."""
    run = subprocess.run

    def run_here(command, **options):
        if command[1:4] != ["-m", "tfagents_batch", "train"]:
            return run(command, **options)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert train.main(command[4:]) == 0
        return SimpleNamespace(stdout=out.getvalue())

    monkeypatch.setattr(subprocess, "run", run_here)


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("name", sorted({*SCRIPTS, *NOTEBOOKS} - {ELSEWHERE}))
def test_an_example_runs(name, tmp_path, monkeypatch):
    core = cpus.available()[:1]  # so batches have one worker
    monkeypatch.setattr(cpus, "available", lambda: core)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    brief.shorten(monkeypatch, tmp_path, linear_ppo=name not in PPO)
    train_here(monkeypatch)
    code = code_of(name)
    for text, less in LESS.items():
        code = code.replace(text, less)
    brief.run(code, tmp_path, "example.py")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_short_and_says_how_to_run_it(name):
    tree = ast.parse(code_of(name))
    docstring, end = ast.get_docstring(tree), tree.body[0].end_lineno
    code = [line for line in code_of(name).splitlines()[end:] if line]
    assert len(code) <= LINES
    assert f"python examples/{name}" in docstring


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_has_outputs_of_one_run_from_top_to_bottom(name):
    cells = [cell for cell in notebook(name) if cell["cell_type"] == "code"]
    assert [x["execution_count"] for x in cells] == [*range(1, len(cells) + 1)]
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs and not [x for x in outputs if x["output_type"] == "error"]
    assert "/tmp/" not in json.dumps(outputs)


def test_every_example_is_on_the_page():
    page = (FOLDER / "README.md").read_text()
    for name in (*SCRIPTS, *NOTEBOOKS):
        assert f"]({name})" in page, name
