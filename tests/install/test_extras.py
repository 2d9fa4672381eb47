"""Tests of the optional packages that setup.py names."""

import importlib.metadata
import re

import pytest
from packaging.utils import canonicalize_name

from tests.install import extras

# Distributions that write files of the same names, so one damages the other.
SAME_FOLDER = [
    {"pygame", "pygame-ce"},
    {"opencv-python", "opencv-python-headless", "opencv-contrib-python"},
    {"tensorflow", "tensorflow-cpu"},
]


@pytest.mark.parametrize("rivals", SAME_FOLDER, ids=lambda x: min(x))
def test_the_extras_of_dev_bring_one_of_packages_that_share_a_folder(rivals):
    assert len(extras.closure(extras.by_name()["dev-all"]) & rivals) <= 1


@pytest.mark.parametrize("rivals", SAME_FOLDER, ids=lambda x: min(x))
def test_one_of_packages_that_share_a_folder_is_installed(rivals):
    installed = importlib.metadata.distributions()
    assert len({canonicalize_name(each.name) for each in installed} & rivals) <= 1


def test_build_md_lists_every_extra_and_whether_dev_has_it():
    text = (extras.ROOT / "BUILD.md").read_text()
    size = r"(?:\d+|not measured)"
    rows = re.findall(rf"^\| `([\w-]+)` \| .* \| {size} \| (.*?)\|$", text, re.M)
    said = {name: cell.strip() for name, cell in rows}
    expected = dict.fromkeys(extras.by_name(), "no")
    expected |= dict.fromkeys(extras.in_dev(), "yes")
    expected |= dict.fromkeys(extras.in_dev_all(), "`dev-all`")
    assert said == expected | {"dev": "", "dev-all": ""}


def test_tests_can_be_skipped_without_each_extra_that_only_dev_all_has():
    assert {*extras.LARGE} == {*extras.in_dev_all()}


def test_readme_names_every_extra():
    text = (extras.ROOT / "README.md").read_text()
    assert [name for name in extras.by_name() if f"`{name}`" not in text] == []
