"""What the documents say is what the code does."""

import dataclasses
import pathlib
import re
import subprocess
import sys

import pytest

from tfagents_batch import config
from tfagents_batch.algorithms import ppo

ROOT = pathlib.Path(__file__).parents[1]
MARKER = "<!-- table of tfagents_batch.algorithms.ppo.Config -->"


def settings(value, prefix=""):
    """``(name, default, help)`` of every setting, nested ones too."""
    plain = config.to_dict(value)
    for field in dataclasses.fields(value):
        current = getattr(value, field.name)
        if dataclasses.is_dataclass(current) and isinstance(plain[field.name], dict):
            yield from settings(current, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, plain[field.name], field.metadata["help"]


def test_the_page_of_ppo_lists_every_setting_with_its_default():
    table = ["| setting | default | |", "|---|---|---|"]
    table += [f"| `{n}` | {d} | {h} |" for n, d, h in settings(ppo.Config())]
    page = (ROOT / "docs/algorithms/ppo.md").read_text()
    expected = MARKER + "\n\n" + "\n".join(table) + "\n"
    assert expected in page, f"the table should read:\n{expected}"


def test_the_page_of_ppo_explains_every_metric_of_an_update():
    page = (ROOT / "docs/algorithms/ppo.md").read_text()
    for name in ppo.METRICS + ppo.KL_METRICS:
        assert f"`{name}`" in page, name


PAGES = [
    page for part in ("*", "docs/**/*", "tests/*") for page in ROOT.glob(part + ".md")
]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text()):
        assert (page.parent / target).exists(), target


def python_blocks(page="README.md"):
    text = (ROOT / page).read_text()
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(0, marks=pytest.mark.any_route),
        1,
        pytest.param(2, marks=pytest.mark.xla),
    ],
)
def test_the_python_of_the_readme_runs(number, tmp_path):
    blocks = python_blocks()
    assert len(blocks) == 3
    # As printed, but for a shorter training and a task without Box2D.
    code = re.sub(r"steps=[\d_]+", "steps=500, eval_every=0", blocks[number])
    code = code.replace("LunarLander-v3", "CartPole-v1")
    header = "import keras\nimport tensorflow as tf\nimport tfagents_batch as tfb\n"
    run(header + code, tmp_path)


@pytest.mark.xla
def test_the_python_of_the_page_on_groups_runs(tmp_path):
    (code,) = python_blocks("docs/concepts/groups.md")
    run(code, tmp_path)


def test_the_python_of_the_page_on_tensor_environments_runs(tmp_path):
    code = "".join(python_blocks("docs/concepts/tensor_environments.md"))
    small = code.replace("steps=200_000", "steps=5000, eval_every=0")
    assert small != code
    run(small, tmp_path)


def test_the_python_of_the_page_on_running_runs(tmp_path):
    blocks = python_blocks("docs/running.md")
    (code,) = [each for each in blocks if "tfb.load" in each]
    small = code.replace("steps=2_000", "steps=500, eval_every=0, compile='off'")
    assert small != code
    run(small, tmp_path)


def run(code, folder):
    (folder / "page.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
