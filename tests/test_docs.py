"""Tests that the documentation matches the code."""

import collections
import dataclasses
import pathlib
import pkgutil
import re
import typing

import pytest

import tfagents_batch as tfb
from tests.install import extras
from tests.support import brief
from tfagents_batch import api, config
from tfagents_batch.__main__ import commands
from tfagents_batch.algorithms import REGISTRY, dqn, ppo
from tfagents_batch.envs.shared import cpus
from tfagents_batch.metrics import Limit
from tfagents_batch.training import alarms
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


ALGORITHM_PAGES = sorted(ROOT.glob("docs/algorithms/*.md"))


@pytest.mark.parametrize("page", ALGORITHM_PAGES, ids=lambda page: page.stem)
def test_the_page_of_an_algorithm_begins_with_a_command(page):
    text = page.read_text()
    name = "(?:config|algorithm)"
    assert re.match(rf"# .+\n\n```\ntfagents-batch train --{name}=", text)
    assert re.findall("^## (.+)", text, re.MULTILINE)[-1] == "References"


@pytest.mark.parametrize("name", REGISTRY)
def test_pages_name_every_algorithm(name):
    kind = REGISTRY[name][1]
    (page,) = [
        page
        for page in ALGORITHM_PAGES
        for table in MARKER.findall(page.read_text())
        if pkgutil.resolve_name(table) is kind
    ]
    assert re.search(rf"^\| .*`{name}`", (ROOT / "README.md").read_text(), re.MULTILINE)
    for lists in ("README.md", "docs/index.md", "docs/reference/settings.md"):
        assert f"algorithms/{page.name}" in (ROOT / lists).read_text(), lists


def test_a_page_lists_every_command():
    text = (ROOT / "docs/index.md").read_text()
    part = text.partition("## Commands")[2].partition("\n## ")[0]
    assert re.findall(r"^\| \[?`(\w+)`", part, re.MULTILINE) == [*commands()]


def test_all_pages_are_listed():
    text = (ROOT / "docs/index.md").read_text()
    listed = {*re.findall(r"\]\(([^)#]+)", text)}
    pages = {x.relative_to(ROOT / "docs").as_posix() for x in ROOT.glob("docs/**/*.md")}
    lists = "docs/decisions/README.md", "docs/reference/index.md"  # of other pages
    folders = tuple(f"{pathlib.Path(x).parent.name}/" for x in lists)
    assert {x for x in pages - listed if not x.startswith(folders)} == {"index.md"}


PAGES = [
    page for part in ("*", "docs/**/*", "tests/*") for page in ROOT.glob(part + ".md")
]


def test_readme_has_the_commands_of_the_gate_as_lines_of_their_own():
    gate = (ROOT / ".ci" / "run").read_text()
    commands = re.findall(r"^(?:readme|train=|evaluate=) ?'(.+)'$", gate, re.MULTILINE)
    assert len(commands) == 4
    assert set(commands) <= set((ROOT / "README.md").read_text().splitlines())


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


# ---- every Python block runs alone, as it is printed

NEEDS = re.compile(r"# needs the (.*)\n")  # first line of a block
EXTRAS = {  # of what is named in a block
    "ALE/": "atari",
    "ai_edge_litert": "export",
    "ale_py": "atari",
    "dm_env": "dm",
    "envpool": "envpool",
    "import gym\n": "gym",
    "import onnxruntime": "export",
    "offline": "offline",
    "RayPool": "ray",
    "serving.predictor": "serve",
}
# Blocks that read what commands of their page wrote, and the tests that run them.
ELSEWHERE = {
    "docs/evaluation.md": (1, "tests/scripts/test_decide.py"),
    "docs/algorithms/bc.md": (1, "tests/offline/test_page.py"),
    "docs/export.md": (4, "tests/serving/test_export_page.py"),
    "docs/features.md": (1, "tests/offline/test_page.py"),
    "docs/offline.md": (3, "tests/offline/test_page.py"),
    "docs/serving.md": (2, "tests/serving/test_page.py"),
}
LESS = {  # text of blocks, and what the tests run instead
    "(1, 2, 3, 4, 5)": "(1,)",
    "length=128": "length=8",
    "num_envs=1024": "num_envs=4",
    "ppo.PPOConfig(epochs=4)": "ppo.PPOConfig(epochs=1, histograms=False)",
    "range(100)": "range(2)",
    "range(200)": "range(3)",
    "range(400)": "range(110)",
    "range(3)": "range(1)",
    "zeros([1024,": "zeros([4,",
}
WITHOUT_EXTRA = "writer"  # of the extra "offline": logs rows with the base install


def blocks():
    """Return ``(page, number, code)`` of every Python block of README and docs."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    found = []
    for page in sorted(pages):
        codes = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
        name = page.relative_to(ROOT).as_posix()
        found += [(name, number, code) for number, code in enumerate(codes)]
    return found


def needs(code):
    """Return the extras and the other things that the first line of a block names."""
    text = (NEEDS.match(code) or [None, ""])[1]
    parts = text.split(" and the ") if text else []
    extras = {x.split('"')[1] for x in parts if x.startswith("extra ")}
    return extras, [x for x in parts if not x.startswith("extra ")]


ALONE = [
    pytest.param(
        *(page, code),
        marks=[pytest.mark.xla] * ("jit_compile=True" in code)
        + [pytest.mark.any_backend] * (page == "README.md"),
        id=f"{page}-{number}",
    )
    for page, number, code in blocks()
    if not needs(code)[1]
]


@pytest.mark.parametrize(("page", "code"), ALONE)
def test_a_block_runs_alone(page, code, tmp_path, monkeypatch):
    for extra in needs(code)[0] & {*extras.LARGE}:
        extras.skip_without(extra)
    core = cpus.available()[:1]  # so batches have one worker
    monkeypatch.setattr(cpus, "available", lambda: core)
    brief.shorten(monkeypatch, tmp_path, linear_ppo="network=network" not in code)
    for text, less in LESS.items():
        code = code.replace(text, less)
    brief.run(code, tmp_path)


def test_blocks_that_read_files_are_run_by_tests_of_their_pages():
    other = collections.Counter(x for x, _, code in blocks() if needs(code)[1])
    assert other == {page: count for page, (count, _) in ELSEWHERE.items()}
    for page, (_, test) in ELSEWHERE.items():
        assert page in (ROOT / test).read_text(), page


def test_blocks_name_the_extras_that_they_need():
    known = {*extras.by_name()}
    for page, number, code in blocks():
        named = needs(code)[0]
        used = {extra for word, extra in EXTRAS.items() if word in code}
        used -= {"offline"} if WITHOUT_EXTRA in code else set()
        assert named <= known and used == named, (page, number)


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
    assert {"system/learner_mb", "system/traces"} <= found
    assert found <= {*explained()}
    assert {event["event"] for event in read_events(run.logdir)} <= {*explained()}


def test_every_alarm_is_explained():
    shared = [row for row in vars(alarms).values() if isinstance(row, Limit)]
    rows = *ppo.PPOConfig().alarms(), *dqn.DQNConfig().alarms(), *shared
    section = WATCHING.partition("## Alarms")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)
    assert sorted(row.name for row in rows) == sorted(named)


def test_every_name_is_explained_once():
    assert sorted(explained()) == sorted({*explained()})
