"""Tests that the images, the services and docs/containers.md belong together.

There need be no container engine where the tests run, so they read the files.
"""

import fnmatch
import pathlib
import re
import shlex
import subprocess
import sys

import pytest
import yaml

from tests.install import extras
from tests.serving import exports, served
from tests.support import untrained
from tfagents_batch.configs import PRESETS
from tfagents_batch.scripts import export as script
from tfagents_batch.serving.predictor import Predictor
from tfagents_batch.serving.server.settings import ServerSettings

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs/containers.md").read_text()
COMPOSE_TEXT = (ROOT / "docker/compose.yml").read_text()
COMPOSE = yaml.safe_load(COMPOSE_TEXT)
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
    named = re.findall(r"EXTRAS(?:=|:-)([\w,]+)", PAGE + DOCKERFILE + COMPOSE_TEXT)
    assert len(named) == 3
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


def test_services_use_the_image_that_one_of_them_builds():
    services = COMPOSE["services"]
    (build,) = (x["build"] for x in services.values() if "build" in x)
    assert (ROOT / "docker" / build["context"] / build["dockerfile"]).is_file()
    assert build["target"] in STAGES
    (default,) = re.findall(r"^ARG EXTRAS=(.*)", DOCKERFILE, re.M)
    assert build["args"] == {"EXTRAS": f"${{EXTRAS:-{default}}}"}
    assert all(x["init"] for x in services.values())  # it reaps worker processes
    tags = dict(re.findall(r"--target (\w+) -t (\S+) \.$", PAGE, re.M))
    assert {x["image"] for x in services.values()} == {tags[build["target"]]}


def test_services_are_reached_from_this_machine_only():
    for service in COMPOSE["services"].values():
        assert all(x.startswith("127.0.0.1:") for x in service.get("ports", ()))


def test_the_size_of_the_page_is_the_sum_of_the_sizes_of_extras():
    text = (ROOT / "BUILD.md").read_text()
    (base,) = re.findall(r"what it requires takes ([\d.]+) GB", text)
    sizes = {
        k: int(n) for k, n in re.findall(r"^\| `(\w+)` .* \| (\d+) \|", text, re.M)
    }
    (extras,) = re.findall(r"^ARG EXTRAS=(.*)", DOCKERFILE, re.M)
    cpu = float(base) + sum(sizes[x] for x in extras.split(",")) / 1000
    spark = cpu + (sizes["spark"] - sizes["offline"]) / 1000  # which spark has, too
    assert f"about {cpu:.1f} GB in `cpu`, and {spark:.1f} GB in `spark`" in PAGE


def test_the_health_check_tells_a_server_that_is_ready(tmp_path):
    service = COMPOSE["services"]["serve"]
    kind, python, *code = service["healthcheck"]["test"]
    assert (kind, python) == ("CMD", "python")
    assert service["ports"] == ["127.0.0.1:8080:8080"]
    assert service["restart"] == "unless-stopped"

    def check(port):
        words = [x.replace("8080", str(port)) for x in code]
        done = subprocess.run([sys.executable, *words], stderr=subprocess.DEVNULL)
        return done.returncode

    with served.process(exports.discrete(tmp_path / "x"), "--token=secret") as server:
        assert check(server.port) == 0
    assert check(server.port) == 1  # nothing listens there any more


def test_the_circle_of_the_page_has_the_commands_that_the_recipe_runs():
    """``tests/offline/test_recipe.py`` runs those of docs/offline.md."""
    part = PAGE.partition("\n## From a table to a policy\n")[2]
    found = re.findall(r"docker compose run .*? train (\w+ --[^)\n]*)", part)
    recipe = (ROOT / "docs/offline.md").read_text()
    known = re.findall(r"tfagents-batch (\w+ --[^)\n]*)", recipe)
    assert len(found) == 6
    assert {x.replace("/input/", "") for x in found} <= {*known}


def test_the_tokens_come_from_the_environment():
    service = COMPOSE["services"]["serve"]
    names = ["TFAGENTS_BATCH_TOKEN", "TFAGENTS_BATCH_ADMIN_TOKEN"]
    assert service["environment"] == names
    assert not [x for x in service["command"] if "token" in x]


def test_commands_name_images_services_and_targets_that_exist():
    built = re.findall(r"--target (\w+) -t (\S+) \.$", PAGE, re.M)
    assert built == [(name, f"tfagents_batch:{name}") for name in IMAGES]
    assert {*re.findall(r"tfagents_batch:(\w+)", PAGE)} <= {*IMAGES}
    options = r"(?: -v \S+| --?[\w-]+)*"
    named = rf"docker compose (?:up|run|build|stop|logs){options} (\w+)"
    assert {*re.findall(named, PAGE)} == {*COMPOSE["services"]}
    assert "export COMPOSE_FILE=docker/compose.yml\n" in PAGE


def test_an_export_of_the_page_is_what_the_service_serves(tmp_path, monkeypatch):
    (command,) = re.findall(r"run --rm train (export --logdir=logs.*)", PAGE)
    run = untrained.folder("ppo", "CartPole-v1", tmp_path, num_envs=1, num_workers=0)
    monkeypatch.chdir(tmp_path)  # in place of /data, where all services run
    assert {x["working_dir"] for x in COMPOSE["services"].values()} == {"/data"}
    _, *flags = shlex.split(command.replace("logs/<run>", str(run)))
    assert script.main(flags) == 0
    name, *flags = COMPOSE["services"]["serve"]["command"]
    given = dict(x.removeprefix("--").split("=", 1) for x in flags)
    assert name == "serve" and given["host"] == "0.0.0.0"
    export = ServerSettings(**given).export
    assert Predictor.load(export).predict([[0.0] * 4])["action"].shape == (1,)


def test_the_service_trains_a_preset_into_the_volume():
    name, *flags = COMPOSE["services"]["train"]["command"]
    given = dict(x.removeprefix("--").split("=", 1) for x in flags)
    assert name == "train" and given["config"] in PRESETS
    assert "logdir" not in given  # it is "logs" in /data
