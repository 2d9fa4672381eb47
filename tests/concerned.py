"""Print, or run, the tests that import given files, directly or through other modules.

    python -m tests.concerned tfagents_batch/nn/policies/box.py
    python -m tests.concerned --run tfagents_batch/nn/policies/box.py -x

Tests that import a file in fewer steps come first. A test that only calls
``tfagents_batch.train`` reads every module, so it is not counted: imports of the
package itself are ignored.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests import test_layers
from tests.test_layers import BENCHMARKS, PACKAGE, ROOT


def importers() -> dict[str, set[str]]:
    """Return the modules that import each module of package, benchmarks and tests."""
    sources = test_layers.modules(PACKAGE, BENCHMARKS, "tests")
    graph: dict[str, set[str]] = collections.defaultdict(set)
    for module, source in sources.items():
        for _, name in test_layers.imported_names(source):
            target = test_layers.module_of(name, sources)
            if target not in (None, PACKAGE):
                graph[target].add(module)
    return graph


def tests_of(files: Iterable[Path]) -> list[str]:
    """Return the paths of the tests that import files, the nearest first."""
    names = (file.resolve().relative_to(ROOT).with_suffix("").parts for file in files)
    queue = [".".join(parts).removesuffix(".__init__") for parts in names]
    seen, graph = set(queue), importers()
    for module in queue:  # which grows
        for other in sorted(graph[module] - seen):
            seen.add(other)
            queue.append(other)
    paths = (module.replace(".", "/") + ".py" for module in queue)
    return [path for path in paths if Path(path).name.startswith("test_")]


if __name__ == "__main__":
    arguments = sys.argv[1:]
    files = [Path(x) for x in arguments if x.endswith(".py")]
    found = tests_of(files)
    if "--run" in arguments:
        options = [x for x in arguments if x != "--run" and not x.endswith(".py")]
        sys.exit(pytest.main(options + found) if found else 0)
    print(*found, sep="\n")
