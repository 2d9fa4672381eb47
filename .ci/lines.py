"""Print the lines of Python in each folder of the package, and in that of its tests."""

import collections
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

found = collections.Counter()
for root in ("tfagents_batch", "tests"):
    for path in (ROOT / root).rglob("*.py"):
        lines = len(path.read_text().splitlines())
        folder = path.parent.relative_to(ROOT / root).as_posix()
        found.update({(root, folder): lines, (root, "together"): lines})

print(" package    tests")
for name in sorted({name for _, name in found}, key=lambda x: (x == "together", x)):
    print(f"{found['tfagents_batch', name]:8,} {found['tests', name]:8,}  {name}")
