import pathlib
import re

from benchmarks import make_environments

SETUP = pathlib.Path(make_environments.__file__).parents[1] / "setup.py"


def test_the_bench_extra_has_the_packages_that_the_script_installs():
    text = SETUP.read_text().partition('"bench": [')[2].partition("\n    ]")[0]
    names = {*re.findall(r'^ +"([^">]+)', text, re.MULTILINE)}
    assert names == {*make_environments.PEERS, "torch"}
