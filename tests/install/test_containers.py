"""Tests that the images, the services and docs/containers.md belong together.

There is no container engine where the tests run, so they read the files.
"""

import fnmatch
import pathlib
import re
import shlex

import pytest
import yaml

from tests.install import extras
from tests.support import untrained
from tfagents_batch.configs import PRESETS
from tfagents_batch.scripts import export as script
from tfagents_batch.serving.predictor import Predictor
from tfagents_batch.serving.server.settings import Settings

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs/containers.md").read_text()
COMPOSE = yaml.safe_load((ROOT / "docker/compose.yml").read_text())
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text()


def stages():
    """Return the stages of the Dockerfile: ``{name: (parent, [(word, rest)])}``."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.M)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    found = {}
    for line in filter(None, lines):
        word, rest = line.split(maxsplit=1)
        if word == "FROM":
            parent, _, name = rest.split()
            found[name] = (parent, [])
        elif found:
            found[name][1].append((word, rest))
    return found


STAGES = stages()
IMAGES = [name for name in STAGES if name != "base"]


def instructions(name):
    """Return the instructions of a stage and of those before it."""
    if name not in STAGES:
        return []
    parent, own = STAGES[name]
    return instructions(parent) + own


def last(name, word):
    return [rest for each, rest in instructions(name) if each == word][-1]


@pytest.mark.parametrize("image", IMAGES)
def test_the_package_is_installed_from_the_folder_with_its_source(image):
    folder, source, installed = "/", None, 0
    for word, rest in instructions(image):
        if word == "WORKDIR":
            folder = rest
        elif word == "COPY" and "setup.py" in rest:
            source = folder
        elif word == "RUN" and re.search(r'pip install .*"\.\[', rest):
            assert folder == source
            installed += 1
    assert installed


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_runs_the_command_as_a_user_in_its_home(image):
    assert last(image, "USER") == "agent"
    assert last(image, "WORKDIR") == "/home/agent"
    assert last(image, "ENTRYPOINT") == '["tfagents-batch"]'


def test_the_context_has_what_is_copied_and_nothing_else():
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [x for x in rules if x and not x.startswith("#")]
    copied = {
        name
        for _, own in STAGES.values()
        for word, rest in own
        if word == "COPY"
        for name in rest.split()[:-1]
    }
    assert rules[0] == "*"
    assert {x[1:] for x in rules if x.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)
    assert any(fnmatch.fnmatch("tfagents_batch/__pycache__", x) for x in rules[1:])


def test_extras_of_the_images_exist():
    named = re.findall(r"EXTRAS=([\w,]+)", PAGE + DOCKERFILE)
    assert len(named) == 2
    assert {x for each in named for x in each.split(",")} <= {*extras.by_name()}


@pytest.mark.parametrize("image", ["cpu", "cuda"])
def test_a_stage_that_uses_an_argument_of_the_build_declares_it(image):
    words = [word for word, rest in STAGES[image][1] if "EXTRAS" in rest]
    assert words == ["ARG", "RUN"]  # without it, the name is empty in the stage


def test_data_and_caches_are_in_volumes_that_belong_to_the_user():
    (made,) = [rest for word, rest in instructions("base") if "install --dir" in rest]
    folders = re.search(r"--owner=agent --group=agent (.*)", made)[1].split()
    assert f"XDG_CACHE_HOME={folders[1]}" == last("base", "ENV")
    for service in COMPOSE["services"].values():
        mounted = [x.split(":") for x in service["volumes"]]
        assert [path for _, path in mounted] == folders
        assert {name for name, _ in mounted} == {*COMPOSE["volumes"]}
    for command in re.findall(r"^docker run .*", PAGE, re.M):
        assert re.findall(r"-v \w+:(\S+)", command) == folders


def test_services_are_built_from_an_image_and_reached_from_this_machine_only():
    for service in COMPOSE["services"].values():
        build = service["build"]
        assert (ROOT / "docker" / build["context"] / build["dockerfile"]).is_file()
        assert build["target"] in STAGES
        assert all(x.startswith("127.0.0.1:") for x in service.get("ports", ()))


def test_the_tokens_come_from_the_environment():
    service = COMPOSE["services"]["serve"]
    names = ["TFAGENTS_BATCH_TOKEN", "TFAGENTS_BATCH_ADMIN_TOKEN"]
    assert service["environment"] == names
    assert not [x for x in service["command"] if "token" in x]


def test_commands_name_images_services_and_targets_that_exist():
    built = re.findall(r"--target (\w+) -t (\S+) \.$", PAGE, re.M)
    assert built == [(name, f"tfagents_batch:{name}") for name in IMAGES]
    assert {*re.findall(r"tfagents_batch:(\w+)", PAGE)} <= {*IMAGES}
    named = re.findall(r"docker/compose\.yml (?:up|run --rm) (?:--detach )?(.*)", PAGE)
    services = {named.split()[0] for named in named}
    assert services == {*COMPOSE["services"]}


def test_an_export_of_the_page_is_what_the_service_serves(tmp_path, capsys):
    (command,) = re.findall(r"run --rm train (export .*)", PAGE)
    run = untrained.folder("ppo", "CartPole-v1", tmp_path, num_envs=1, num_workers=0)
    command = command.replace("/data/logs/<run>", str(run))
    _, *flags = shlex.split(command.replace("/data", str(tmp_path)))
    assert script.main(flags) == 0
    name, *flags = COMPOSE["services"]["serve"]["command"]
    given = dict(x.removeprefix("--").split("=", 1) for x in flags)
    assert name == "serve" and given["host"] == "0.0.0.0"
    served = Settings(**given).export.replace("/data", str(tmp_path))
    assert Predictor.load(served).predict([[0.0] * 4])["action"].shape == (1,)


def test_the_service_trains_a_preset_into_the_volume():
    name, *flags = COMPOSE["services"]["train"]["command"]
    given = dict(x.removeprefix("--").split("=", 1) for x in flags)
    assert name == "train" and given.pop("logdir") == "/data/logs"
    assert given["config"] in PRESETS
