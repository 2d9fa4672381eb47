import ast
import pathlib

import pytest

from benchmarks import make_environments, process
from tfagents_batch.errors import UserError

SETUP = pathlib.Path(make_environments.__file__).parents[1] / "setup.py"


@pytest.fixture
def commands(monkeypatch):
    """Arguments of everything that would be run; all of it succeeds."""
    ran = []

    def call(arguments, check=True):
        ran.append(arguments)
        return 0

    monkeypatch.setattr(make_environments, "_call", call)
    return ran


def asked(commands):
    """What pip is asked to install, call by call."""
    return [each[4:] for each in commands if each[1:4] == ["-m", "pip", "install"]]


def test_peers_are_installed_with_the_pins_and_the_torch_that_is_there(
    commands, tmp_path, capsys
):
    arguments = [f"--folder={tmp_path}", "--torch=torch==9.9"]
    assert make_environments.main(arguments) == 0
    torch, peers = asked(commands)
    assert torch == ["torch==9.9", "--no-index", "--no-deps"]
    assert {*make_environments.PEERS, "torch==9.9"} <= {*peers}
    assert any(each.startswith("gymnasium==") for each in peers)
    assert capsys.readouterr().out.strip() == str(tmp_path / "bin/python")


def test_tf_agents_gets_old_tools_for_building_before_anything_is_built(
    commands, tmp_path, monkeypatch
):
    monkeypatch.setattr(make_environments, "check_python", lambda version: None)
    make_environments.main(["--tf_agents", f"--folder={tmp_path}"])
    tools, packages, gymnasium = asked(commands)
    assert "setuptools<66" in tools
    assert "--no-build-isolation" in packages and "tf-agents==0.19.0" in packages
    assert "--no-deps" in gymnasium


def test_batch_ppo_is_installed_without_the_gym_it_asks_for(
    commands, tmp_path, monkeypatch
):
    monkeypatch.setattr(make_environments, "check_python", lambda version: None)
    make_environments.main(["--batch_ppo", f"--folder={tmp_path}"])
    _, packages, package, gymnasium = asked(commands)
    assert "ruamel.yaml" in packages
    assert not any(each.startswith("gym=") for each in packages)
    assert "batch-ppo==1.4.0" in package and "--no-deps" in package
    assert "--no-deps" in gymnasium


def test_two_environments_at_once_are_refused(commands):
    with pytest.raises(UserError, match="run this script twice"):
        make_environments.main(["--tf_agents", "--batch_ppo"])
    assert commands == []


def test_tf_agents_steps_the_gymnasium_that_is_installed_here():
    found = make_environments.gymnasium_alone({"gymnasium": "1.2", "numpy": "2.0"})
    assert "gymnasium==1.2" in found and "numpy==2.0" not in found


@pytest.mark.parametrize("name", [*process.FOLDERS])
def test_environments_are_made_where_they_are_looked_for(commands, name, monkeypatch):
    monkeypatch.setattr(make_environments, "check_python", lambda version: None)
    make_environments.main([] if name == "peers" else [f"--{name}"])
    (folder,) = {each[-1] for each in commands if each[1:3] == ["-m", "venv"]}
    assert pathlib.Path(folder).name == process.FOLDERS[name]


@pytest.mark.parametrize("version", [(3, 8), (3, 12)])
def test_a_python_without_that_tensorflow_is_refused(version):
    with pytest.raises(UserError, match=r"run this script with Python 3\.9 to 3\.11"):
        make_environments.check_python(version)


def test_the_newest_python_of_that_tensorflow_is_accepted():
    make_environments.check_python((3, 11))


def test_what_pip_refuses_is_named(commands, tmp_path, monkeypatch):
    monkeypatch.setattr(
        make_environments,
        "_call",
        lambda arguments, check=True: int("pip" in arguments),
    )
    with pytest.raises(UserError, match=r"could not install 'torch'"):
        make_environments.main([f"--folder={tmp_path}"])


def test_the_extra_brings_what_the_script_installs():
    extras = next(
        node.value
        for node in ast.parse(SETUP.read_text()).body
        if isinstance(node, ast.Assign) and node.targets[0].id == "EXTRAS"
    )
    bench = next(
        ast.literal_eval(value)
        for key, value in zip(extras.keys, extras.values, strict=True)
        if key.value == "bench"
    )
    names = {each.split(">")[0] for each in bench}
    assert names == {*make_environments.PEERS, "torch"}
