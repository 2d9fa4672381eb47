"""Tests that the files and tests named in the feature tables exist."""

import ast
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
STATES = ("met", "partly", "otherwise", "open", "not here")


def numbers(*parts):
    """Return row numbers: ``("BP-", range(1, 3), "9x")`` gives BP-01, BP-02, BP-9x."""
    prefix, *rest = parts
    found = []
    for part in rest:
        found += [part] if isinstance(part, str) else [f"{x:02d}" for x in part]
    return [prefix + each for each in found]


PAGES = {
    "tests/batch_ppo_features.md": [
        *numbers("BP-", range(1, 9), range(10, 20), range(20, 24), range(30, 45)),
        *numbers("BP-", range(50, 60), range(60, 65), range(70, 81), range(85, 93)),
        *numbers("BP-", "95", *(f"96{x}" for x in "abcdefghi"), "97"),
        *numbers("BP-", range(100, 105)),
        *numbers("BP-D", range(1, 27)),
        *numbers("BP-A", range(1, 24)),
    ],
    "tests/ga3c_features.md": [
        *numbers("GA-", range(1, 17), range(20, 31), range(35, 40), range(45, 54)),
        *numbers("GA-", range(60, 67), range(70, 72)),
        *numbers("GA-D", range(1, 19)),
        *numbers("GA-A", range(1, 25)),
    ],
    "tests/user_features.md": [
        *numbers("U-", range(1, 16), range(20, 22), range(25, 29), range(30, 34)),
        *numbers("U-", range(53, 55), "58"),
    ],
}


def rows(page):
    """Yield ``(row, feature, state, files, tests)`` of every row of a page's tables."""
    for line in (ROOT / page).read_text().splitlines():
        if re.match(r"\| (BP|GA|U)-", line):
            cells = [x.strip() for x in line.strip()[1:-1].split("|")]
            row, feature, state, where, held = cells
            yield row, feature, state, quoted(where), quoted(held)


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


ROWS = [pytest.param(page, *row, id=row[0]) for page in PAGES for row in rows(page)]


@functools.cache
def known_tests(path):
    """Return the names of the tests in a file, prefixed by their class if any."""
    found = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            inner = [x for x in node.body if isinstance(x, ast.FunctionDef)]
            found |= {f"{node.name}::{each.name}" for each in inner}
    return {name for name in found if name.rpartition("::")[2].startswith("test_")}


@pytest.mark.parametrize("page", PAGES)
def test_every_row_number_occurs_once_in_order(page):
    assert [row for row, *_ in rows(page)] == PAGES[page]


@pytest.mark.parametrize(("page", "row", "feature", "state", "files", "tests"), ROWS)
def test_files_and_tests_in_a_row_exist(page, row, feature, state, files, tests):
    assert state.partition(":")[0] in STATES
    assert (":" in state) == state.startswith(("partly", "otherwise")), state
    for path in files:
        assert (ROOT / path).is_file(), path
    for name in tests:
        path, _, test = name.partition("::")
        assert test in known_tests(path), name
    if state.startswith(("met", "otherwise")):
        assert files and tests, "a row that is met names a file and a test"
    elif state.startswith("partly"):
        assert files, "a row that is partly met names a file"
    else:
        assert not files and not tests, f"a row that is {state} names no file or test"
