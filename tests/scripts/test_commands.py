"""Tests of ``python -m tfagents_batch``, which runs each script as a command."""

import importlib
import os
import pathlib
import subprocess
import sys

import pytest
from PIL import Image

import tfagents_batch.__main__ as commands
from tests.scripts import transcript
from tests.support.python import run
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import train

ROOT = pathlib.Path(__file__).parents[2]
EXTRAS = ["duckdb", "pyarrow", "optuna", "onnx", "onnxruntime", "matplotlib", "ray"]
EXTRAS += ["pyspark", "imageio", "minari", "uvicorn", "starlette", "wandb", "mlflow"]


@pytest.fixture
def start(tmp_path):
    """Return a function that runs a command as the installed one does, in a folder."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "tfagents-batch"
    program.write_text("from tfagents_batch.__main__ import main\n\nmain()\n")
    (tmp_path / "work").mkdir()
    options = {"capture_output": True, "text": True, "timeout": 240}
    options["cwd"] = tmp_path / "work"
    # XLA's defaults: convolutions of the lowest level are slow.
    options["env"] = {**os.environ, "XLA_FLAGS": ""}
    return lambda *arguments: subprocess.run(
        [sys.executable, program, *arguments], **options
    )


def test_help_lists_every_script_without_tensorflow():
    code = "import sys; from tfagents_batch import __main__ as m; m.main(); "
    code += "print('tensorflow' in sys.modules)"
    *lines, loaded = run(code).stdout.splitlines()
    scripts = {path.stem for path in ROOT.glob("tfagents_batch/scripts/[!_]*.py")}
    scripts.remove("command_line")
    assert {*commands.commands()} == scripts
    assert all(any(f"  {name}" in line for line in lines) for name in scripts)
    assert loaded == "False"


def test_the_transcript_has_every_command():
    names = {command.split()[0] for command in transcript.COMMANDS}
    assert names == {*commands.commands()}


def test_a_transcript_knows_the_first_line_and_the_longest_silence():
    lines = [transcript.Line(x, "err", "") for x in (0.5, 2.0, 6.0)]
    done = transcript.Done(lines, 7.0, 0)
    assert (done.first, done.silence) == (0.5, 4.0)
    assert transcript.Done(lines, 13.0, 0).silence == 7.0


def test_scripts_can_be_imported_without_tensorflow():
    """Each imports it quietly in ``command_line.run``, or does not need it."""
    paths = ROOT.glob("tfagents_batch/scripts/[!_]*.py")
    modules = ", ".join(f"tfagents_batch.scripts.{path.stem}" for path in paths)
    code = f"import sys, {modules}; print('tensorflow' in sys.modules)"
    assert run(code).stdout == "False\n"


def test_what_is_wrong_without_tensorflow_is_said_without_it(tmp_path):
    """A start of TensorFlow takes seconds."""
    folder = tmp_path / "run"
    (folder / "checkpoints" / "step-000000000100").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    run_folder = f"--logdir={folder}"
    wrong = {
        "train cartpole": "stray argument 'cartpole'",
        "train --config=cartpol": "did you mean 'cartpole'?",
        "train --algorithm.epochs 3 --steps=abc": "--steps=abc: expected a whole",
        "train --pool=rey": "--pool=rey: expected none or ray or spark",
        "train --resume=nowhere": "nowhere does not exist",
        "train --init_from=nowhere": "nowhere does not exist",
        "train --data=tabel": "tabel has no timeline",
        "evaluate --logdir=nowhere": "nowhere does not exist",
        f"evaluate {run_folder} --checkpoint=bst": "use newest, best or a step of 100",
        "export --logdir=nowhere": "nowhere does not exist",
        "collect --logdir=nowhere": "nowhere does not exist",
        "decide --logdir=nowhere --data=tabel": "tabel has no timeline",
        "plot --logdir=nowhere": "pass a run folder or a folder of runs",
        f"visualize {run_folder}": "flag --format=gif",
        "sweep --logdir=s --search=num_envs=log:0:8": "expected a low end above 0",
        "sweep --logdir=s --config=cartpol": "did you mean 'cartpole'?",
    }
    code = f"""if True:
        import importlib, sys
        from tfagents_batch.errors import UserError

        sys.modules["imageio_ffmpeg"] = None
        for line in {[*wrong]}:
            name, *flags = line.split()
            script = importlib.import_module("tfagents_batch.scripts." + name)
            try:
                getattr(script, "early", script.main)(flags)
                print("no error")
            except UserError as error:
                print(error)
            assert "tensorflow" not in sys.modules, line
    """
    done = run(code)
    lines = done.stdout.splitlines()
    assert len(lines) == len(wrong), done.stderr
    for line, (command, text) in zip(lines, wrong.items(), strict=True):
        assert text in line, (command, line)


def test_help_of_a_command_is_that_of_the_command(monkeypatch):
    ran = []
    monkeypatch.setattr(train, "main", lambda argv: ran.append(argv) or 0)
    monkeypatch.setattr(sys, "argv", ["tfagents-batch", "help", "train"])
    with pytest.raises(SystemExit, match=r"^0$"):
        commands.main()
    assert ran == [["--help"]]


def test_the_help_of_every_command_needs_no_extra():
    """The modules of all extras are as if they were not installed."""
    paths = ROOT.glob("tfagents_batch/scripts/[!_]*.py")
    names = sorted({path.stem for path in paths} - {"command_line"})
    code = f"import sys, importlib; sys.modules |= dict.fromkeys({EXTRAS})\n"
    code += f"for name in {names}:\n"
    code += "    script = importlib.import_module('tfagents_batch.scripts.' + name)\n"
    code += "    try: script.main(['--help'])\n"
    code += "    except SystemExit as end: assert end.code == 0, name\n"
    assert run(code).stdout.count("general flags, with their defaults:") == len(names)


def test_a_command_gets_its_flags_and_finds_modules_of_the_folder(start, tmp_path):
    code = "from tfagents_batch.envs.testing import CountingEnv as Mine\n"
    (tmp_path / "work" / "mine.py").write_text(code)
    done = start("check", "--env=mine:Mine")
    assert done.returncode == 0, done.stderr
    assert "mine:Mine" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["trian"], 64, "unknown command 'trian'; did you mean 'train'?"),
        (["evaluate", "--logdirr=x"], 64, "did you mean --logdir?"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_a_status(start, arguments, status, text):
    done = start(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert text in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "flag", "text"),
    [
        ("evaluate", "--run=logs/x", "unknown flag --run; did you mean --logdir?"),
        ("export", "--run=logs/x", "did you mean --logdir?"),
        ("decide", "--run=logs/x", "did you mean --logdir?"),
        ("collect", "--policy=logs/x", "did you mean --logdir?"),
        ("train", "--run=logs/x", "did you mean --resume?"),
        ("visualize", "--num_episodes=3", "did you mean --episodes?"),
        ("evaluate", "--n_eval_episodes=3", "n_eval_episodes is --episodes here"),
        ("train", "--policy=MlpPolicy", "--algorithm.network.hidden here, such as "),
    ],
)
def test_another_word_for_a_flag_is_an_error_that_names_ours(command, flag, text):
    script = importlib.import_module(f"tfagents_batch.scripts.{command}")
    with pytest.raises(UserError) as error:
        script.main([flag])
    assert text in str(error.value)


def test_the_demo_trains_and_saves_a_video(start, tmp_path):
    done = start("demo", "--steps=3000", "--quiet", "--outdir=seen")
    assert done.returncode == 0, done.stderr
    [video] = (tmp_path / "work" / "seen").iterdir()
    assert f"video:    seen/{video.name}" in done.stdout
    with Image.open(video) as picture:
        assert picture.format == "GIF" and picture.n_frames > 2
