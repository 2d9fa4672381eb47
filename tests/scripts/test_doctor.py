"""Findings of the doctor, even if a check hangs or crashes."""

import os
import subprocess
import sys
from importlib import metadata

import pytest

from tfagents_batch.devices import nvidia, placement
from tfagents_batch.envs.native import build
from tfagents_batch.scripts import command_line, doctor
from tfagents_batch.scripts.doctor import FAILED, OK, WARNING


def rows(text):
    """Return state and text by the name of the check, and the last line."""
    *lines, last = text.splitlines()
    named = {line[:15].strip(): line[16:] for line in lines}
    return {name: (row[:8].strip(), row[9:]) for name, row in named.items()}, last


def test_every_check_works_with_or_without_a_compiler():
    command = [sys.executable, "-m", "tfagents_batch", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    found, last = rows(done.stdout)
    assert last == "training works on this machine"
    assert {*doctor.checks()} <= set(found)
    assert found["tensorflow"][1].startswith(metadata.version("tensorflow"))
    for name in ("python", "numpy", "keras", "gymnasium", "operations", "workers"):
        assert found[name][0] == OK, found[name]
    assert "TensorFlow had run" not in found["compile cache"][1]
    backend = "native" if found["engine"][0] == OK else "portable"
    assert backend in found["workers"][1]


def test_without_a_compiler_there_is_a_warning_and_advice(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("CXX", "/nonexistent")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "_load", build._load.__wrapped__)  # it keeps its result
    assert doctor.run("engine", doctor.engine)
    row, advice = capsys.readouterr().out.splitlines()
    assert row.startswith(f"{'engine':15} {WARNING}")
    assert "CXX is '/nonexistent'" in row
    assert "compiler" in advice


def test_a_check_that_hangs_is_ended_with_its_children(monkeypatch, tmp_path, capsys):
    """A child of the second process holds a pipe open until it ends."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    code = "import subprocess; subprocess.run(['tail', '-f', '/dev/null'])"
    fake(monkeypatch, tmp_path, f'exec {sys.executable} -c "{code}"')
    popen = subprocess.Popen

    def inheriting(*args, **kwargs):
        kwargs["pass_fds"] += (writing,)
        return popen(*args, **kwargs)

    monkeypatch.setattr(subprocess, "Popen", inheriting)
    assert not doctor.isolated(1.0)
    os.close(writing)
    row = "second process  FAILED   took longer than 1 s\n"
    assert capsys.readouterr().out == row
    with os.fdopen(reading) as pipe:
        assert pipe.read() == ""  # all writing processes have ended


def test_a_python_that_cannot_be_started_is_a_failure(monkeypatch, tmp_path, capsys):
    fake(monkeypatch, tmp_path, "")
    (tmp_path / "python").chmod(0o644)
    assert not doctor.isolated(60)
    path = tmp_path / "python"
    row = f"second process  FAILED   {path} cannot be started: Permission denied\n"
    assert capsys.readouterr().out == row


def test_a_crash_is_a_failure_in_the_row_of_its_check(monkeypatch, tmp_path, capfd):
    """What its libraries wrote comes after the table."""
    code = "cd /proc/self/fd; printf operations > $3; echo of XLA > $4; kill -SEGV $$"
    fake(monkeypatch, tmp_path, code)
    assert not doctor.isolated(60)
    out, err = capfd.readouterr()
    assert out == "operations      FAILED   crashed with status -11\n"
    assert "of XLA" in err


def test_messages_of_libraries_do_not_tear_the_table(monkeypatch, capfd):
    code = "import os; from tfagents_batch.scripts import doctor; "
    code += "check = lambda: (os.write(2, b'a message'), doctor.Remark('fine'))[1]; "
    code += "doctor.CHECKS = {'one': check}; import sys; "
    python = sys.executable

    def started(command, **options):
        return popen([python, "-c", code + command[2], *command[3:]], **options)

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", started)
    assert doctor.isolated(60)
    out, err = capfd.readouterr()
    assert out == "one             ok       fine\n" and "a message" not in err


def fake(monkeypatch, folder, script):
    """Replace the Python interpreter by a shell script."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(doctor.sys, "executable", str(path))


def test_a_package_that_is_missing_or_too_old_says_what_to_install(monkeypatch, capsys):
    needed = ["numpy>=1.26", "rich>=99", "no-such", 'gym; extra == "gym"']
    monkeypatch.setattr(metadata, "requires", lambda name: needed)
    assert doctor.packages() == [True, True, False, False]
    _, _, rich, advice, missing, _ = capsys.readouterr().out.splitlines()
    assert rich.startswith(f"{'rich':15} FAILED   ")
    assert advice.strip() == 'pip install "rich>=99"'
    assert missing == f"{'no-such':15} FAILED   is missing"


@pytest.mark.parametrize(
    ("result", "wrong", "row"),
    [
        (("fine", ""), WARNING, "ok       fine"),
        (("slow", "do"), WARNING, f"warning  slow\n{'':24} do"),
        (("0: a\n1: b", ""), WARNING, f"ok       0: a\n{'':24} 1: b"),
        (("broken", "repair"), FAILED, f"FAILED   broken\n{'':24} repair"),
        (ImportError("no libfoo.so"), "", "FAILED   ImportError: no libfoo.so"),
    ],
)
def test_a_row_has_the_state_the_text_and_advice(result, wrong, row, capsys):
    def check():
        if isinstance(result, Exception):
            raise result
        return result

    assert doctor.run("one", check, wrong) == (not row.startswith(FAILED))
    assert capsys.readouterr().out == f"{'one':15} {row}\n"


@pytest.mark.parametrize("installed", [True, False])
def test_without_a_driver_there_is_one_row_about_gpus(monkeypatch, installed):
    monkeypatch.setattr(nvidia, "installed", lambda: installed)
    skipped = {*doctor.CHECKS} - {*doctor.checks()}
    assert skipped == (set() if installed else {"GPUs", "CUDA", "GPU compiler"})


def test_a_gpu_that_cannot_be_used_is_a_warning(monkeypatch, capsys):
    monkeypatch.setattr(nvidia, "driver", lambda: nvidia.Driver("470.82", (11, 4), 1))
    assert doctor.run("GPU driver", doctor.driver)
    row, advice = capsys.readouterr().out.splitlines()
    assert row.startswith("GPU driver      warning  470.82, for CUDA up to 11.4")
    assert "install NVIDIA driver" in advice


def test_memory_of_gpus_is_read_before_tensorflow_takes_it():
    names = [*doctor.CHECKS]
    assert names.index("GPUs") < names.index("import")


def test_the_check_of_tensorflow_takes_memory_of_a_gpu_as_it_needs_it(monkeypatch):
    claimed = []
    monkeypatch.setattr(placement, "claim", lambda found: claimed.append(found.name))
    doctor.operations()
    assert claimed == ["gpu"]


def test_no_driver_is_no_warning(monkeypatch, capsys):
    monkeypatch.setattr(nvidia, "driver", lambda: None)
    assert doctor.run("GPU driver", doctor.driver)
    (row,) = capsys.readouterr().out.splitlines()
    assert row.startswith("GPU driver      ok       no NVIDIA driver")


def test_checks_of_cuda_run_with_or_without_it():
    for check in (doctor.gpus, doctor.libraries, doctor.compiler):
        assert check().text


def test_the_exit_status_says_whether_training_works(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "isolated", lambda seconds: seconds > 3)
    assert doctor.main(["--seconds=4"]) == 0
    assert capsys.readouterr().out.endswith("\ntraining works on this machine\n")
    assert doctor.main(["--seconds=3"]) == command_line.EXIT_DATA
    assert capsys.readouterr().out.endswith("does not work on this machine\n")
