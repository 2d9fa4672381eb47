"""Tests that the migration guides match the package."""

import contextlib
import dataclasses
import functools
import importlib
import io
import operator
import pathlib
import re
import shlex

import pytest

import tfagents_batch as tfb
from tfagents_batch import api, config
from tfagents_batch.algorithms import ppo
from tfagents_batch.configs import PRESETS
from tfagents_batch.envs import wrappers
from tfagents_batch.sources import on_policy
from tfagents_batch.training import experiment

ROOT = pathlib.Path(__file__).parents[1]
PAGES = {path.stem: path.read_text() for path in ROOT.glob("docs/migrating/*.md")}
BATCH_PPO = "batch-ppo"
COMMAND_LINES = (BATCH_PPO, "stable-baselines3")  # projects with a command line
SCRIPT = re.compile(r"`python -m (tfagents_batch\.scripts\.\w+) ?([^`]*)`")
COMMANDS = {(page, *each) for page in PAGES for each in SCRIPT.findall(PAGES[page])}
# Replacements that shorten the training on the pages.
SMALL = {
    BATCH_PPO: {
        "steps=1_000_000": "steps=50, eval_every=0, num_workers=1, compile='off'",
        "num_envs=30": "num_envs=2",
        '"episodes": 30': '"episodes": 2',
        "episodes=20": "episodes=2",
    },
    "stable-baselines3": {
        "steps=100_000": "steps=500, eval_every=0, num_workers=1, compile='off'",
        "steps=1_000_000": "steps=50, eval_every=0, num_workers=0, compile='off'",
        '"length": 2048': '"length": 64',
        "episodes=20": "episodes=2",
    },
    "tf-agents": {
        "steps=1_000_000": "steps=50, eval_every=0, num_workers=0, compile='off'",
        "Config(epochs=4)": "Config(epochs=4, histograms=False)",
        "range(100)": "range(2)",
    },
}
VALUES = {"kl", "both", "return", "per_step", "batch", "gru", "lstm"}  # not settings


def section(page, title):
    """Return the text of a section, without its title."""
    return re.search(rf"## {title}\n(.*?)(?=\n## |\Z)", PAGES[page], re.DOTALL)[1]


def table(text):
    """Return the cells of the tables in a text, including their header rows."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[x.strip() for x in line.strip()[1:-1].split("|")] for line in lines]
    return [row for row in cells if not set(row[0]) <= {"-"}]


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def code(page):
    return "".join(re.findall(r"```python\n(.*?)```", PAGES[page], re.DOTALL))


def settings(value, prefix=""):
    """Yield the dotted name of every setting."""
    for field in dataclasses.fields(value):
        current = getattr(value, field.name)
        yield prefix + field.name
        if dataclasses.is_dataclass(current):
            yield from settings(current, f"{prefix}{field.name}.")


def named_settings(cell):
    """Return the settings named in a cell, without their values."""
    names = [each for each in quoted(cell) if re.fullmatch(r"[a-z_.]+", each)]
    return [each for each in names if each not in VALUES]


def known_settings():
    own = settings(ppo.Config(), "algorithm.")
    source = settings(on_policy.Config(), "rollout.")
    return {*settings(experiment.Config()), *own, *source}


def help_of(module):
    script = importlib.import_module(module)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert script.main(["--help"]) == 0
    return out.getvalue()


@pytest.mark.parametrize(("page", "module", "arguments"), sorted(COMMANDS))
def test_commands_accept_the_flags_on_the_page(page, module, arguments):
    flags = [each.partition("=")[0] for each in shlex.split(arguments)]
    text = help_of(module)
    for flag in flags:
        assert re.search(rf"{re.escape(flag)}\b", text), flag


def test_every_script_has_a_command():
    named = {module.rpartition(".")[2] for page, module, _ in COMMANDS}
    scripts = (ROOT / "tfagents_batch/scripts").glob("*.py")
    assert named == {path.stem for path in scripts} - {"__init__", "app"}


@pytest.mark.parametrize("page", COMMAND_LINES)
def test_presets_of_the_page_exist(page):
    named = re.findall(r"`(batch_ppo/\w+)`", PAGES[page])
    named += re.findall(r"scripts\.train [^`]*--config=([\w/-]+)", PAGES[page])
    assert named
    assert {*named} <= {*PRESETS}


@pytest.mark.parametrize("page", COMMAND_LINES)
def test_flags_of_the_page_exist(page):
    text = help_of("tfagents_batch.scripts.train")
    flags = {
        each.partition("=")[0]
        for row in table(PAGES[page])
        for each in quoted(row[-1])
        if each.startswith("--")
    }
    assert len(flags) > 5
    for flag in flags:
        assert re.search(rf"{flag}\b", text), flag


@pytest.mark.parametrize("page", PAGES)
def test_settings_of_the_page_exist(page):
    known = known_settings()
    rows = table(section(page, "Settings"))[1:]
    named = {each for row in rows for each in named_settings(row[2])}
    assert len(named) > 20
    assert named <= known, named - known


@pytest.mark.parametrize("page", ["stable-baselines3", "tf-agents"])
def test_our_defaults_on_the_page_are_correct(page):
    depends = "algorithm.network.hidden"  # its default depends on the observations
    ours, seen = config.to_dict(experiment.Config()), set()
    for *_, cell, defaults in table(section(page, "Settings"))[1:]:
        names = named_settings(cell)
        texts = defaults.split(", ") if len(names) > 1 else [defaults] * len(names)
        for name, text in zip(names, texts, strict=True):
            if name != depends:
                path = name.replace("algorithm.", "settings.").split(".")
                path = ["source" if each == "rollout" else each for each in path]
                own = functools.reduce(operator.getitem, path, ours)
                assert own in (text, plain(text)), name
                seen.add(name)
    assert len(seen) > 15


def plain(text):
    """Return the value that a cell of defaults stands for."""
    words = {"none": None, "yes": True, "no": False}
    if text in words:
        return words[text]
    return float(text) if text[0].isdigit() else text


@pytest.mark.parametrize(
    ("page", "title"),
    [
        (BATCH_PPO, "Summaries"),
        ("stable-baselines3", "Metrics"),
        ("tf-agents", "Metrics"),
    ],
)
def test_metrics_on_the_page_exist(page, title):
    known = (ROOT / "docs/watching.md").read_text()
    rows = table(section(page, title))[1:]
    named = {each for _, ours in rows for each in quoted(ours) if "/" in each}
    assert len(named) > 10
    for name in named:
        assert f"`{name}`" in known, name


def test_wrappers_on_the_page_exist():
    rows = table(section(BATCH_PPO, "Parts"))
    (theirs,) = [row[0] for row in rows if "AutoReset" in row[0]]
    own = {"standard_stack", "SelectEntries"}
    assert {*quoted(theirs)} | own == {*wrappers.__all__}


def test_the_example_equals_the_preset(monkeypatch):
    first, *_ = re.findall(r"```python\n(.*?)```", PAGES[BATCH_PPO], re.DOTALL)
    found = []

    def train(algorithm, env, settings, **options):
        found.append(api.resolve(algorithm, env, None, settings, options))

    monkeypatch.setattr(tfb, "train", train)
    exec(first, {})
    assert found == [PRESETS["batch_ppo/pendulum"]()]


@pytest.mark.xla
@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_the_page_runs(page, tmp_path, monkeypatch):
    text = code(page)
    for large, instead in SMALL[page].items():
        assert large in text
        text = text.replace(large, instead)
    monkeypatch.chdir(tmp_path)
    exec(text, {"__name__": "__main__"})
