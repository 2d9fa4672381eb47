import ast
import pathlib

from benchmarks import make_environments

SETUP = pathlib.Path(make_environments.__file__).parents[1] / "setup.py"


def test_the_bench_extra_has_the_packages_that_the_script_installs():
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
