"""Findings of the doctor, even if a check hangs or crashes."""

import json
import os
import subprocess
import sys
from importlib import metadata

import pytest

from tfagents_batch.errors import UserError
from tfagents_batch.scripts import app, doctor
from tfagents_batch.scripts.doctor import FAILED, OK, WARNING, CheckResult


def test_every_check_works_with_or_without_a_compiler():
    command = [sys.executable, "-m", "tfagents_batch.scripts.doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = json.loads(done.stdout)
    assert printed["ok"] is True
    found = {each["name"]: each for each in printed["findings"]}
    assert {*doctor.CHECKS} - {"packages"} <= set(found)
    assert found["tensorflow"]["text"].startswith(metadata.version("tensorflow"))
    for name in ("python", "numpy", "keras", "gymnasium", "operations", "workers"):
        assert found[name]["state"] == OK, found[name]
    backend = "native" if found["engine"]["state"] == OK else "portable"
    assert backend in found["workers"]["text"]


def test_without_a_compiler_there_is_a_warning_and_advice(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "/nonexistent")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (finding,) = doctor.check("engine", 200)
    assert finding.state == WARNING
    assert "CXX is '/nonexistent'" in finding.text
    assert "compiler" in finding.advice


def test_a_check_that_hangs_is_ended_with_its_children(monkeypatch, tmp_path):
    """A child of the check's process holds a pipe open until it ends."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    code = "import subprocess; subprocess.run(['tail', '-f', '/dev/null'])"
    fake(monkeypatch, tmp_path, f'exec {sys.executable} -c "{code}"')
    popen = subprocess.Popen

    def inheriting(*args, **kwargs):
        return popen(*args, **kwargs, pass_fds=[writing])

    monkeypatch.setattr(subprocess, "Popen", inheriting)
    (finding,) = doctor.check("workers", 1.0)
    os.close(writing)
    assert finding.state == FAILED
    assert finding.text == "took longer than 1 s"
    with os.fdopen(reading) as pipe:
        assert pipe.read() == ""  # all writing processes have ended


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("kill -SEGV $$", "status -11"),
        ("echo ImportError: no libfoo.so >&2; exit 1", "ImportError: no libfoo.so"),
    ],
)
def test_a_crash_is_a_finding(monkeypatch, tmp_path, script, text):
    fake(monkeypatch, tmp_path, script)
    (finding,) = doctor.check("operations", 60)
    assert finding[:3] == ("operations", FAILED, text)
    assert "tfagents_batch.scripts.doctor --check=operations" in finding.advice


def fake(monkeypatch, folder, script):
    """Replace the Python interpreter by a shell script."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(doctor.sys, "executable", str(path))


def test_a_check_that_does_not_exist_is_refused():
    with pytest.raises(UserError, match="unknown check 'caches'"):
        doctor.main(["--check=caches"])


def test_a_package_that_is_missing_or_too_old_says_what_to_install(monkeypatch):
    needed = ["numpy>=1.26", "rich>=99", "no-such", 'gym; extra == "gym"']
    monkeypatch.setattr(metadata, "requires", lambda name: needed)
    python, numpy, rich, missing, _ = doctor.packages()
    assert python.state == numpy.state == OK
    assert rich.state == FAILED
    assert rich.advice == 'pip install "rich>=99"'
    assert missing == CheckResult(
        "no-such", FAILED, "is missing", 'pip install "no-such"'
    )


def test_an_extra_is_installed_if_all_its_requirements_are(monkeypatch):
    needed = {
        "tfagents_batch": ['numpy; extra == "gym"', 'gymnasium[box]; extra == "box2d"'],
        "gymnasium": ['numpy; extra == "toy"', 'no-such; extra == "box"'],
    }
    monkeypatch.setattr(metadata, "requires", needed.get)
    extras = doctor.packages()[-1].text.split("; not installed: ")
    installed, missing = (names.split(", ") for names in extras)
    assert "gym" in installed and "box2d" in missing


def test_the_table_has_a_row_and_advice_for_each_finding(monkeypatch, capsys):
    found = {
        "one": CheckResult("one", OK, "fine"),
        "two": CheckResult("two", WARNING, "so", "do"),
    }
    monkeypatch.setattr(doctor, "check", lambda name, seconds: [found[name]])
    monkeypatch.setattr(doctor, "CHECKS", found)
    assert doctor.main([]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in out[:2]] == [["ok", "one"], ["warning", "two"]]
    assert out[2].strip() == "do"
    assert out[-1] == "everything works, but see two"
    found["one"] = CheckResult("one", FAILED, "broken", "repair it")
    assert doctor.main([]) == app.EXIT_DATA
    assert capsys.readouterr().out.endswith("training does not work here: see one\n")
