"""Tests that the migration guides match the package."""

import contextlib
import functools
import importlib
import inspect
import io
import json
import operator
import os
import pathlib
import re
import shlex
import subprocess

import pytest

import tfagents_batch as tfb
from benchmarks.measure import process
from tests.support import peer_arguments
from tests.support.peer_arguments import ALGORITHMS
from tfagents_batch import config
from tfagents_batch.configs import PRESETS, named
from tfagents_batch.envs import wrappers
from tfagents_batch.errors import UserError
from tfagents_batch.settings import suggest
from tfagents_batch.training.config import RunConfig

ROOT = pathlib.Path(__file__).parents[1]
PAGES = {path.stem: path.read_text() for path in ROOT.glob("docs/migrating/*.md")}
BATCH_PPO, SB3, TF_AGENTS = "batch-ppo", "stable-baselines3", "tf-agents"
D3RLPY, RLLIB = "d3rlpy", "rllib"
COMMAND_LINES = (BATCH_PPO, SB3)  # projects with a command line
SCRIPT = re.compile(r"`tfagents-batch (\w+) ?([^`]*)`")
COMMANDS = {(page, *each) for page in PAGES for each in SCRIPT.findall(PAGES[page])}
# Quoted words that are not settings.
VALUES = {
    "adam",
    "rmsprop_tf",
    "kl",
    "both",
    "return",
    "value",
    "per_step",
    "batch",
    "gru",
    "lstm",
    "ou",
    "sde",
}
THEIRS = json.loads(peer_arguments.FILE.read_text())  # arguments of Stable-Baselines3
OFFLINE = ("TD3_BC", "BCQ", "CQL", "IQL", "CRR")
# Algorithms that have a table of settings, a longer name before those in it.
OURS = (*OFFLINE, *ALGORITHMS, "REINFORCE")
# Other parts of Stable-Baselines3 in the tables of its arguments.
OTHERS = re.compile(
    r"n_envs|make_vec_env|ent_coef=.*|RMSpropTFLike|(Vec\w+|\w+Noise)(\(.*\))?"
)
# Arguments whose defaults the page says in other words.
DEPENDS = {"learn(tb_log_name)", 'policy_kwargs["net_arch"]'}


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


def named_settings(cell):
    """Return the settings named in a cell, without their values."""
    names = [each for each in quoted(cell) if re.fullmatch(r"[a-z_.]+", each)]
    return [each for each in names if each not in VALUES]


def known_settings(algorithm):
    run = RunConfig(algorithm=algorithm.lower())
    parts = {"": run, "algorithm.": run.settings, f"{run.source.name}.": run.source}
    names = {prefix: config.flat(config.to_dict(x)) for prefix, x in parts.items()}
    return {prefix + name for prefix in names for name in names[prefix]}


def parts(page):
    """Yield each part of the settings: its algorithms, and the rows of its table.

    The algorithms are those in the title of the part; all of them if it names none.
    Pages that have no parts are about PPO.
    """
    whole, *others = re.split("^### ", section(page, "Settings"), flags=re.MULTILINE)
    yield ("PPO",), table(whole)[1:]
    for part in others:
        title = part.splitlines()[0]
        yield re.findall("|".join(OURS), title) or ALGORITHMS, table(part)[1:]


def rows_of(page, algorithm):
    """Yield the rows of an algorithm, with its own defaults."""
    for algorithms, rows in parts(page):
        if algorithm in algorithms:
            for row in rows:
                yield [of_algorithm(cell, algorithm) for cell in row]


def of_algorithm(cell, algorithm):
    """Return what a cell such as "DQN 4; others 1" says about an algorithm."""
    names = "|".join(ALGORITHMS)
    found = re.findall(rf"((?:(?:{names}),? )+|others )([^;]*)(?:; |$)", cell)
    if not found or "".join(x + y for x, y in found) != cell.replace("; ", ""):
        return cell
    for whose, value in found:
        if algorithm in re.split(",? ", whose) or whose == "others ":
            return value
    raise ValueError(f"{cell!r} does not name {algorithm}")


def help_of(command):
    script = importlib.import_module(f"tfagents_batch.scripts.{command}")
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit, match="0"):
        script.main(["--help"])
    return out.getvalue()


@pytest.mark.parametrize(("page", "command", "arguments"), sorted(COMMANDS))
def test_commands_accept_the_flags_on_the_page(page, command, arguments):
    flags = [each.partition("=")[0] for each in shlex.split(arguments)]
    text = help_of(command)
    for flag in flags:
        assert re.search(rf"{re.escape(flag)}\b", text), flag


def test_every_script_has_a_command():
    named = {command for page, command, _ in COMMANDS}
    scripts = (ROOT / "tfagents_batch/scripts").glob("*.py")
    assert named == {path.stem for path in scripts} - {"__init__", "command_line"}


@pytest.mark.parametrize("page", COMMAND_LINES)
def test_presets_of_the_page_exist(page):
    named = re.findall(r"`(batch_ppo/\w+)`", PAGES[page])
    named += re.findall(r"tfagents-batch train [^`]*--config=([\w/-]+)", PAGES[page])
    assert named
    assert {*named} <= {*PRESETS}


@pytest.mark.parametrize("page", COMMAND_LINES)
def test_flags_of_the_page_exist(page):
    text = help_of("train")
    flags = {
        each.partition("=")[0]
        for row in table(PAGES[page])
        for each in quoted(row[-1])
        if each.startswith("--")
    }
    assert len(flags) > 5
    for flag in flags:
        assert re.search(rf"{flag}\b", text), flag


EACH = [(page, "PPO") for page in (BATCH_PPO, SB3, TF_AGENTS)]
EACH += [(SB3, each) for each in ALGORITHMS[1:]]
EACH += [(TF_AGENTS, each) for each in ("DQN", "SAC", "REINFORCE")]
EACH += [(RLLIB, "PPO")] + [(D3RLPY, each) for each in ("DQN", *OFFLINE)]


@pytest.mark.parametrize(("page", "algorithm"), EACH)
def test_settings_of_the_page_exist(page, algorithm):
    known = known_settings(algorithm)
    cells = [row[2] for row in rows_of(page, algorithm)]
    named = {each for cell in cells for each in named_settings(cell)}
    assert len(named) > (4 if page == D3RLPY else 10)
    assert named <= known, named - known
    arguments = {x for each in cells for x in re.findall(r"`(\w+)=`", each)}
    assert arguments <= {*inspect.signature(tfb.train).parameters}


@pytest.mark.parametrize(("page", "algorithm"), [x for x in EACH if x[0] != BATCH_PPO])
def test_our_defaults_on_the_page_are_correct(page, algorithm):
    depends = "algorithm.network.hidden"  # its default depends on the observations
    ours = config.to_dict(RunConfig(algorithm=algorithm.lower()))
    seen = set()
    for *_, cell, defaults in rows_of(page, algorithm):
        names = named_settings(cell)
        for name, text in zip(names, split(defaults, len(names)), strict=True):
            if name != depends:
                path = name.replace("algorithm.", "settings.").split(".")
                sources = ("rollout", "replay")
                path = ["source" if each in sources else each for each in path]
                own = functools.reduce(operator.getitem, path, ours)
                assert own in (text, plain(text)), name
                seen.add(name)
    assert len(seen) > (4 if page == D3RLPY else 8)


def split(defaults, count):
    """Return the texts of ``count`` defaults."""
    return defaults.split(", ") if count > 1 else [defaults] * count


def plain(text):
    """Return the value that a cell of defaults stands for."""
    words = {"none": None, "yes": True, "no": False}
    if text in words:
        return words[text]
    number = text.replace(",", "")
    return float(number) if re.fullmatch(r"-?[\d.]+(e-?\d+)?", number) else text


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_page_has_every_argument_of_stable_baselines3(algorithm):
    theirs, seen = THEIRS[algorithm], set()
    for cell, defaults, *_ in rows_of(SB3, algorithm):
        names = [each for each in quoted(cell) if each in theirs]
        for name, text in zip(names, split(defaults, len(names)), strict=True):
            if name not in DEPENDS:
                assert plain(text) == plain(theirs[name]), name
        assert not seen & {*names}
        seen |= {*names}
    assert {*theirs} <= seen, {*theirs} - seen


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_error_names_our_setting_for_an_argument_of_stable_baselines3(algorithm):
    parts = "settings.", "source."  # the parts of a config.json have no flags
    names = [x for x in known_settings(algorithm) if not x.startswith(parts)]
    known, seen = {name: f"--{name}" for name in sorted(names)}, set()
    for cell, _, ours, _ in rows_of(SB3, algorithm):
        names = [x for x in quoted(cell) if x in THEIRS[algorithm] and x.isidentifier()]
        ours = named_settings(ours) if ours.startswith("`") else []
        for name in names if ours and ours != ["env"] else ():
            hint = suggest.setting(name, known) or ""
            assert any(f"--{x}" in hint for x in ours), (name, hint)
            seen.add(name)
    assert len(seen) > 8


def test_an_option_of_train_that_is_a_setting_of_another_part_is_named():
    for option, hint in {
        "total_timesteps": "unknown setting 'total_timesteps'; "
        "Stable-Baselines3's total_timesteps is 'steps' here",
        "n_steps": 'n_steps is rollout={"length": ...} here',
        "gamma": 'did you mean settings={"gamma": ...}?',
        "vf_coef": 'settings={"value_scale": ...} here, twice that value',
        "tensorboard_log": "is 'logdir' here",
        "policy_kwargs": 'policy_kwargs is settings={"network.hidden": ...} here',
        "callback": "callback is 'on_iteration' here, or on_evaluation or on_check",
    }.items():
        with pytest.raises(UserError, match=re.escape(hint)):
            tfb.train("ppo", env="CartPole-v1", **{option: 1})
    with pytest.raises(UserError, match=re.escape("n_epochs is 'epochs' here")):
        tfb.train("ppo", env="CartPole-v1", settings={"n_epochs": 1})


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_class_of_stable_baselines3_is_named_with_its_call_here(algorithm):
    call = f'{algorithm} is tfb.train("{algorithm.lower()}", env=...) here'
    with pytest.raises(AttributeError, match=re.escape(call)):
        getattr(tfb, algorithm)


def test_other_names_of_stable_baselines3_are_explained():
    name = "make_vec_env"
    with pytest.raises(AttributeError, match=r"is tfb.train\(..., num_envs=8\) or"):
        getattr(tfb, name)
    for policy in ("MlpPolicy", "CnnPolicy", "MultiInputPolicy"):
        text = f"'{policy}'; Stable-Baselines3's {policy} is the setting network.hidden"
        with pytest.raises(UserError, match=text):
            tfb.train(policy, "CartPole-v1")
    with pytest.raises(UserError, match="unknown algorithm 'PPO'; did you mean 'ppo'"):
        tfb.train("PPO", "CartPole-v1")
    assert not hasattr(tfb, "prepare")


def test_the_page_has_no_other_arguments_of_stable_baselines3():
    known = {name for arguments in THEIRS.values() for name in arguments}
    for algorithm in ALGORITHMS:
        for cell, *_ in rows_of(SB3, algorithm):
            for name in quoted(cell):
                assert name in known or OTHERS.fullmatch(name), name


def test_the_arguments_are_those_of_stable_baselines3():
    chosen = {"peers": os.environ.get("TFAGENTS_BATCH_PEER_PYTHON", "")}
    peers = process.python_of("peers", chosen)
    found = subprocess.run(
        [peers, peer_arguments.__file__, "--print"], capture_output=True, text=True
    )
    if found.returncode:
        pytest.skip(f"{peers} has no Stable-Baselines3: {found.stderr[-200:]}")
    assert json.loads(found.stdout) == THEIRS


@pytest.mark.parametrize(
    ("page", "title"),
    [
        (BATCH_PPO, "Summaries"),
        (SB3, "Metrics"),
        (TF_AGENTS, "Metrics"),
    ],
)
def test_metrics_on_the_page_exist(page, title):
    pages = [ROOT / "docs/watching.md", *ROOT.glob("docs/algorithms/*.md")]
    known = "".join(each.read_text() for each in pages)
    rows = table(section(page, title))[1:]
    named = {each for _, ours in rows for each in quoted(ours) if "/" in each}
    assert len(named) > 10
    for name in named:
        assert f"`{name}`" in known, name


def test_wrappers_on_the_page_exist():
    rows = table(section(BATCH_PPO, "Parts"))
    (theirs,) = [row[0] for row in rows if "AutoReset" in row[0]]
    own = {"standard_stack", "SelectEntries", "SelectKey"}
    assert {*quoted(theirs)} | own == {*wrappers.__all__}


def test_the_example_equals_the_preset(monkeypatch):
    first, *_ = re.findall(r"```python\n(.*?)```", PAGES[BATCH_PPO], re.DOTALL)
    found = []

    def train(algorithm, env, settings, **options):
        found.append(named.resolve(algorithm, env, None, settings, options))

    monkeypatch.setattr(tfb, "train", train)
    exec(first, {})
    assert found == [PRESETS["batch_ppo/pendulum"]()]
