"""Tests that the documentation matches the code."""

import dataclasses
import pathlib
import pkgutil
import re
import runpy
import typing

import pytest

import tfagents_batch as tfb
from tests.support import linear
from tfagents_batch import api, config
from tfagents_batch.algorithms import REGISTRY, dqn, ppo
from tfagents_batch.metrics import Limit
from tfagents_batch.training.diagnostics import alarms
from tfagents_batch.training.log.logger import read_events, read_metrics

ROOT = pathlib.Path(__file__).parents[1]
MARKER = re.compile(r"<!-- table of (tfagents_batch[\w.]+) -->\n\n")


def settings(value, prefix=""):
    """Yield ``(name, default, help)`` of every setting, also nested ones.

    As on the command line, settings of any type are left out.
    """
    plain, hints = config.to_dict(value), typing.get_type_hints(type(value))
    for field in dataclasses.fields(value):
        current, hint = getattr(value, field.name), hints[field.name]
        if hint is typing.Any:
            continue
        if dataclasses.is_dataclass(hint):
            yield from settings(current, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, plain[field.name], field.metadata["help"]


def settings_tables():
    """Yield the text after each marker, and the name of its config."""
    for page in sorted(ROOT.glob("docs/**/*.md")):
        text = page.read_text()
        for match in MARKER.finditer(text):
            yield pytest.param(text[match.end() :], match[1], id=match[1])


@pytest.mark.parametrize("text, name", list(settings_tables()))
def test_tables_list_every_setting_with_its_default(text, name):
    table = ["| setting | default | |", "|---|---|---|"]
    config = pkgutil.resolve_name(name)()
    table += [f"| `{n}` | {d} | {h} |" for n, d, h in settings(config)]
    expected = "\n".join(table) + "\n"
    assert text.startswith(expected), f"the table should read:\n{expected}"


def test_the_page_of_ppo_explains_every_metric_of_an_update():
    page = (ROOT / "docs/algorithms/ppo.md").read_text()
    for name in ppo.METRICS + ppo.KL_METRICS:
        assert f"`{name}`" in page, name


PAGES = [
    page for part in ("*", "docs/**/*", "tests/*") for page in ROOT.glob(part + ".md")
]


@pytest.mark.parametrize("page", PAGES)
def test_every_link_has_a_target(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text()):
        assert (page.parent / target).exists(), target


DOCS = [page for page in PAGES if page.name != "CHANGELOG.md"]  # which is history
FOLDERS = "benchmarks|docker|docs|examples|tests|tfagents_batch"


@pytest.mark.parametrize("page", DOCS)
def test_modules_and_names_of_the_page_exist(page):
    text = page.read_text()
    named = re.findall(r"\btfagents_batch(?:\.\w+)+", text)
    named += re.findall(r"python -m ((?:tests|benchmarks)(?:\.\w+)*)", text)
    for name in {*named}:
        pkgutil.resolve_name(name)
    for name in {*re.findall(r"\btfb\.(\w+)", text)}:
        assert name in tfb.__all__, name
    for name, parts in {*re.findall(r"`([\w/]+\.py): ([\w, .]+)`", text)}:
        source = (ROOT / "tfagents_batch" / name).read_text()
        for part in re.findall(r"\w+", parts):
            assert re.search(rf"\b{part}\b", source), (name, part)


@pytest.mark.parametrize("page", DOCS)
def test_files_of_the_page_exist(page):
    named = re.findall(rf"`((?:{FOLDERS})/[\w./*-]+)", page.read_text())
    for name in {*named} - {"tests/algorithms/test_", "benchmarks/.venv"}:
        assert [*ROOT.glob(name.rstrip("./"))], name


@pytest.mark.parametrize("page", DOCS)
def test_lists_nest_by_four_spaces_as_the_site_needs(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert not re.findall(r"^ {1,3}(?:[*-]|\d+\.) .*|^\n {1,3}\S.*", text, re.MULTILINE)


def test_the_page_lists_what_a_resumed_run_may_change():
    text = (ROOT / "docs/running.md").read_text()
    start = text.index("These settings may change")
    listed = re.findall(r"`--(\w+)`", text[start : text.index("\n\n", start)])
    assert sorted(listed) == sorted(api.RESUMABLE)


def python_of(page):
    """Return the Python blocks of a page, with less training."""
    found = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    settings = "settings={'histograms': False, 'epochs': 1}"
    small = rf"steps=500, eval_every=0, compile='off', {settings}"
    found = [re.sub(r"\bsteps=[\d_]+", small, block) for block in found]
    found = [block.replace("episodes=20", "episodes=2") for block in found]
    return [block.replace("LunarLander-v3", "CartPole-v1") for block in found]


HEADER = "import keras\nimport tensorflow as tf\nimport tfagents_batch as tfb\n"
TENSORS = "docs/concepts/tensor_environments.md"


@pytest.mark.parametrize(
    ("page", "blocks"),
    [
        pytest.param("README.md", [0], marks=pytest.mark.any_backend),
        ("README.md", [1]),
        pytest.param("README.md", [2], marks=pytest.mark.xla),
        pytest.param("docs/concepts/groups.md", [0], marks=pytest.mark.xla),
        (TENSORS, [0, 1]),
        ("docs/running.md", [1]),
        ("docs/concepts/wrappers.md", [0]),
    ],
)
def test_the_code_blocks_of_a_page_run(page, blocks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = python_of(page)
    script = tmp_path / "page.py"
    script.write_text(HEADER + "".join(found[number] for number in blocks))
    if "network" not in script.read_text():  # an algorithm with less to compile
        monkeypatch.setitem(REGISTRY, "ppo", (linear.Linear, ppo.Config))
    runpy.run_path(str(script), run_name="__main__")


def test_every_code_block_is_covered_by_a_test():
    pages = ("README.md", "docs/concepts/groups.md", TENSORS, "docs/running.md")
    pages += ("docs/concepts/wrappers.md",)
    assert [len(python_of(page)) for page in pages] == [3, 1, 2, 2, 1]


# ---- docs/watching.md explains metrics, events and alarms

WATCHING = (ROOT / "docs/watching.md").read_text()
QUICK = {
    "num_envs": 2,
    "num_workers": 1,
    "env_kwargs": {"max_episode_steps": 50},
    "rollout.length": 64,
    "steps": 200,  # two iterations
    "overlap": True,
    "log_every": 1,
    "eval_every": 100,
    "eval_episodes": 2,
    "eval_actions": "both",
    "compile": "off",
    "compile_cache": False,
}


def explained():
    """Return the names in the first column of the tables on the page."""
    rows = re.findall(r"^\| (`.+?`) \|", WATCHING, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_every_metric_and_event_of_a_run_is_explained(tmp_path):
    settings = {"epochs": 1, "objective": "both"}
    run = tfb.train(env="Pendulum-v1", logdir=tmp_path, settings=settings, **QUICK)
    lines = read_metrics(run.logdir)
    assert len(lines) >= 3
    found = {name for line in lines for name in line} - {"step"}
    assert {"episode/return_mean", "system/worker_mb", "lag/updates"} <= found
    assert found <= {*explained()}
    assert {event["event"] for event in read_events(run.logdir)} <= {*explained()}


def test_every_alarm_is_explained():
    shared = [row for row in vars(alarms).values() if isinstance(row, Limit)]
    rows = *ppo.Config().alarms(), *dqn.Config().alarms(), *shared
    section = WATCHING.partition("## Alarms")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)
    assert sorted(row.name for row in rows) == sorted(named)


def test_every_name_is_explained_once():
    assert sorted(explained()) == sorted({*explained()})
