"""What the page for people from batch-ppo says is what there is."""

import contextlib
import dataclasses
import importlib
import io
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

import tfagents_batch as tfb
from tfagents_batch import api, config
from tfagents_batch.algorithms import ppo
from tfagents_batch.configs import PRESETS
from tfagents_batch.envs import wrappers
from tfagents_batch.training import experiment

ROOT = pathlib.Path(__file__).parents[1]
PAGE = "docs/migrating/batch-ppo.md"
TEXT = (ROOT / PAGE).read_text()
LATER = "†"  # behind what the page says is not in this version
QUOTED = re.compile(rf"`([^`]+)`({LATER}?)")
SCRIPT = re.compile(r"`python -m (tfagents_batch\.scripts\.\w+) ?([^`]*)`")


def section(title):
    """Text of a section, without its title."""
    return re.search(rf"## {title}\n(.*?)(?=\n## |\Z)", TEXT, re.DOTALL)[1]


def table(text):
    """Cells of the tables in a text, their heads left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[x.strip() for x in line.strip()[1:-1].split("|")] for line in lines]
    return [row for row in cells if not set(row[0]) <= {"-"}]


def quoted(text):
    """``(what is quoted, whether it comes later)`` of everything in backticks."""
    return [(name, bool(later)) for name, later in QUOTED.findall(text)]


def now(cell):
    """What is quoted in a cell and not marked as coming later."""
    return [name for name, later in quoted(cell) if not later]


def later(text):
    return {name for name, later in quoted(text) if later}


def settings(value, prefix=""):
    """Dotted names of every setting."""
    for field in dataclasses.fields(value):
        current = getattr(value, field.name)
        yield prefix + field.name
        if dataclasses.is_dataclass(current):
            yield from settings(current, f"{prefix}{field.name}.")


def known_settings():
    own = settings(ppo.Config(), "algorithm.")
    return {*settings(experiment.Config()), *own}


def help_of(module):
    script = importlib.import_module(module)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert script.main(["--help"]) == 0
    return out.getvalue()


@pytest.mark.parametrize(("module", "arguments"), SCRIPT.findall(TEXT))
def test_commands_have_the_flags_that_the_page_gives_them(module, arguments):
    flags = [each.partition("=")[0] for each in shlex.split(arguments)]
    text = help_of(module)
    for flag in flags:
        assert re.search(rf"{re.escape(flag)}\b", text), flag


def test_every_script_has_its_command():
    named = {module.rpartition(".")[2] for module, _ in SCRIPT.findall(TEXT)}
    scripts = (ROOT / "tfagents_batch/scripts").glob("*.py")
    assert named == {path.stem for path in scripts} - {"__init__", "app"}


def test_presets_of_the_page_exist_or_are_marked():
    named = re.findall(rf"`(?:--config=)?(batch_ppo/\w+)`({LATER}?)", TEXT)
    assert named
    for name, later in named:
        assert (name in PRESETS) != bool(later), name


def test_flags_of_the_page_exist():
    text = help_of("tfagents_batch.scripts.train")
    flags = {
        each.partition("=")[0]
        for row in table(section("Flags"))[1:]
        for each in now(row[1])
        if each.startswith("--")
    }
    assert flags
    for flag in flags:
        assert re.search(rf"{flag}\b", text), flag


def test_settings_of_the_page_exist():
    known = known_settings()
    named = {
        each
        for _, _, cell in table(section("Settings"))[1:]
        for each in now(cell)
        if re.fullmatch(r"[a-z_.]+", each) and not each.endswith("=")
    }
    values = {"kl"}  # of a setting
    assert len(named) > 20
    assert named - values <= known, named - values - known


def test_settings_marked_as_coming_later_are_not_there_yet():
    assert not later(section("Settings")) & known_settings()


def test_metrics_that_stand_for_summaries_exist():
    metrics = (ROOT / "docs/algorithms/ppo.md").read_text()
    summaries = table(section("Summaries"))[1:]
    named = {each for _, ours in summaries for each in now(ours) if "/" in each}
    assert len(named) > 15
    for name in named:
        assert f"`{name}`" in metrics, name


def test_metrics_marked_as_coming_later_are_not_there_yet():
    metrics = (ROOT / "docs/algorithms/ppo.md").read_text()
    for name in later(section("Summaries")):
        assert f"`{name}`" not in metrics, name


def test_every_wrapper_of_the_page_is_ours_too():
    row = next(row for row in table(section("Parts")) if "AutoReset" in row[0])
    assert {*now(row[0])} | {"standard_stack", "SelectEntries"} == {*wrappers.__all__}


def test_the_settings_of_the_example_are_settings():
    code = "".join(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
    keys = re.findall(r'^    "([\w.]+)": ', code, re.MULTILINE)
    assert len(keys) > 8
    assert {f"algorithm.{key}" for key in keys} <= known_settings()
    assert config.replace(ppo.Config(), {"network.hidden": (200, 100)})


def test_the_example_is_the_preset_written_out(monkeypatch):
    code, *_ = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    found = []

    def train(algorithm, env, settings, **options):
        found.append(api.resolve(algorithm, env, None, settings, options))

    monkeypatch.setattr(tfb, "train", train)
    exec(code, {})
    assert found == [PRESETS["batch_ppo/pendulum"]()]


@pytest.mark.xla
def test_the_python_of_the_page_runs(tmp_path):
    code = "".join(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
    small = {
        "steps=1_000_000": "steps=50, eval_every=0, num_workers=1",
        "num_envs=30": "num_envs=2",
        "update_every=30": "update_every=2",
        "episodes=20": "episodes=2",
    }
    for large, instead in small.items():
        assert large in code
        code = code.replace(large, instead)
    (tmp_path / "page.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
