"""The extras of setup.py, read without running it; and tests that need large ones."""

import ast
import importlib.metadata
import importlib.util
import pathlib
import shutil

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).parents[2]
LARGE = {"envpool": "envpool", "ray": "ray", "spark": "pyspark"}  # what is imported


def skip_without(extra):
    """Skip this test, or the module that calls this, where a large extra is missing."""
    __tracebackhide__ = True  # so that the summary names the caller
    if importlib.util.find_spec(LARGE[extra]) is None:
        reason = f'needs {extra}: pip install -e ".[dev-all]"'
    elif extra == "spark" and not shutil.which("java"):
        reason = "needs Java 17"
    else:
        return
    pytest.skip(reason, allow_module_level=True)


def _value(name):
    """Return the literal that setup.py assigns to a name."""
    for node in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise KeyError(name)


def in_dev():
    """Return the extras that ``dev`` has."""
    return _value("IN_DEV")


def in_dev_all():
    """Return the extras that ``dev-all`` has besides those of ``dev``."""
    return _value("IN_DEV_ALL")


def by_name():
    """Return the requirements of every extra, by its name."""
    found = _value("EXTRAS")
    dev = _value("TOOLS") + [package for extra in in_dev() for package in found[extra]]
    large = [package for extra in in_dev_all() for package in found[extra]]
    return found | {"dev": dev, "dev-all": dev + large}


def closure(requirements):
    """Return the distributions that requirements bring, as far as they are installed.

    Names are canonical, such as ``pygame-ce``.
    """
    seen, todo = set(), [Requirement(text) for text in requirements]
    for each in todo:  # which grows
        for extra in ("", *each.extras):
            one = canonicalize_name(each.name), extra
            if one in seen:
                continue
            seen.add(one)
            try:
                texts = importlib.metadata.requires(each.name) or []
            except importlib.metadata.PackageNotFoundError:
                continue
            parts = map(Requirement, texts)
            todo += [
                part
                for part in parts
                if part.marker is None or part.marker.evaluate({"extra": extra})
            ]
    return {name for name, _ in seen}
