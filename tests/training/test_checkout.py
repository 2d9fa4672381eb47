"""What a run says of the code it was started from."""

import os
import subprocess
import sys
import types

import pytest

from tfagents_batch.training import checkout

IDENTITY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "test"),
    **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "test@example.com"),
}


def git(folder, *command):
    done = subprocess.run(
        ["git", *command],
        cwd=folder,
        env=os.environ | IDENTITY,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    (folder / "inner").mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / "agent.py").write_text("epochs = 3\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=first")
    monkeypatch.chdir(folder / "inner")
    # So that the folder of the test runner's script says nothing.
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    return folder


def test_commit_and_changes_are_told(repository):
    commit = git(repository, "rev-parse", "HEAD")
    assert checkout.state() == {"commit": commit, "changed": False}
    (repository / "logs").write_text("not tracked")
    assert checkout.state() == {"commit": commit, "changed": False}
    (repository / "agent.py").write_text("epochs = 4\n")
    assert checkout.state() == {"commit": commit, "changed": True}


def test_variables_of_a_hook_do_not_lead_elsewhere(repository, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(repository / "nowhere"))
    assert checkout.state()["changed"] is False


def test_outside_of_a_checkout_the_main_script_counts(
    repository, monkeypatch, tmp_path
):
    (tmp_path / "outside").mkdir()
    monkeypatch.chdir(tmp_path / "outside")
    assert checkout.state() is None
    main = types.ModuleType("__main__")
    main.__file__ = str(repository / "agent.py")
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert checkout.state()["changed"] is False


def test_without_git_nothing_is_told(repository, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert checkout.state() is None


def test_a_folder_without_commits_says_nothing(tmp_path, repository, monkeypatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "--quiet")
    monkeypatch.chdir(empty)
    assert checkout.state() is None


def test_a_git_that_hangs_is_not_waited_for(repository, monkeypatch, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "git").write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    (tools / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    assert checkout.state(seconds=0.2) is None


def test_what_a_repository_configures_is_not_run(repository):
    ran = repository / "ran"
    hook = repository / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(hook))
    assert checkout.state()["changed"] is False
    assert not ran.exists()
