"""The git commit that a run records."""

import os
import subprocess
import sys
import types

import pytest

from tfagents_batch.training.run_folder import runs

NO_FILES = dict.fromkeys(("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"), os.devnull)


def git(folder, *command):
    who = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    options = {"cwd": folder, "env": os.environ | NO_FILES, "text": True}
    return subprocess.check_output(["git", *who, *command], **options).strip()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    (folder / "inner").mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / "agent.py").write_text("epochs = 3\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=first")
    monkeypatch.chdir(folder / "inner")
    # So that the folder of the test runner's script is ignored.
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    return folder


def test_commit_and_changes_are_recorded(repository):
    commit = git(repository, "rev-parse", "HEAD")
    assert runs.checkout() == {"commit": commit, "changed": False}
    (repository / "logs").write_text("not tracked")
    assert runs.checkout() == {"commit": commit, "changed": False}
    (repository / "agent.py").write_text("epochs = 4\n")
    assert runs.checkout() == {"commit": commit, "changed": True}


def test_git_variables_in_the_environment_are_ignored(repository, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(repository / "nowhere"))
    assert runs.checkout()["changed"] is False


def test_outside_of_a_repository_that_of_the_main_script_is_used(
    repository, monkeypatch, tmp_path
):
    (tmp_path / "outside").mkdir()
    monkeypatch.chdir(tmp_path / "outside")
    assert runs.checkout() is None
    monkeypatch.setattr(
        sys.modules["__main__"], "__file__", str(repository / "agent.py"), raising=False
    )
    assert runs.checkout()["changed"] is False


def test_without_git_nothing_is_recorded(repository, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert runs.checkout() is None


def test_a_folder_without_commits_has_no_state(tmp_path, repository, monkeypatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "--quiet")
    monkeypatch.chdir(empty)
    assert runs.checkout() is None


def test_a_hanging_git_is_stopped(repository, monkeypatch, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "git").write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    (tools / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    assert runs.checkout(seconds=0.2) is None


def test_a_monitor_configured_by_a_repository_is_not_run(repository):
    ran = repository / "ran"
    hook = repository / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(hook))
    assert runs.checkout()["changed"] is False
    assert not ran.exists()
