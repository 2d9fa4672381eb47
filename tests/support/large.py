"""Packages of hundreds of megabytes, which the extra "dev" lacks and "dev-all" has."""

import importlib.util
import shutil

import pytest

PACKAGES = {"envpool": "envpool", "ray": "ray", "spark": "pyspark"}


def skip_without(extra):
    """Skip this test, or the module that calls this, where an extra is missing."""
    __tracebackhide__ = True  # so that the summary names the caller
    if importlib.util.find_spec(PACKAGES[extra]) is None:
        reason = f'needs {extra}: pip install -e ".[dev-all]"'
    elif extra == "spark" and not shutil.which("java"):
        reason = "needs Java 17"
    else:
        return
    pytest.skip(reason, allow_module_level=True)
