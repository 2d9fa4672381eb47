import ast
import pathlib

import pytest

from benchmarks import make_environments
from tfagents_batch.errors import UserError

SETUP = pathlib.Path(make_environments.__file__).parents[1] / "setup.py"


def test_two_environments_at_once_and_a_python_without_tensorflow_are_refused():
    with pytest.raises(UserError, match="run this script twice"):
        make_environments.main(["--tf_agents", "--batch_ppo"])
    make_environments.check_python((3, 11))
    for version in ((3, 8), (3, 12)):
        with pytest.raises(UserError, match=r"with Python 3\.9 to 3\.11"):
            make_environments.check_python(version)


def test_the_extra_brings_what_the_script_installs():
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
