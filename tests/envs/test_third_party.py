"""Environments of other packages: they work, or one line says what to do."""

import gymnasium
import numpy as np
import pytest

import tfagents_batch as tfb
from tests.support import third_party
from tfagents_batch.envs import packages, registry
from tfagents_batch.errors import EnvError, UserError

MODULE = third_party.__name__
REGISTRATION = "import {gym}\n{gym}.register(\n    id='Installed-v1', entry_point='x')"


def installed(folder, gym, requires):
    """Write a package that registers an id when its part ``envs`` is imported."""
    (folder / "walks" / "envs").mkdir(parents=True)
    (folder / "walks" / "__init__.py").touch()
    (folder / "walks" / "envs" / "__init__.py").write_text(REGISTRATION.format(gym=gym))
    facts = folder / "walks-1.0.dist-info"
    facts.mkdir()
    header = "Metadata-Version: 2.1\nName: walks\nVersion: 1.0\n"
    (facts / "METADATA").write_text(f"{header}Requires-Dist: {requires}\n")
    names = ("walks/__init__.py", "walks/envs/__init__.py")
    (facts / "RECORD").write_text("".join(f"{name},,\n" for name in names))


@pytest.mark.parametrize(
    ("gym", "known"),
    [("gymnasium", "walks.envs:Installed-v1"), ("gym", "gym:walks.envs:Installed-v1")],
)
def test_the_error_of_an_unknown_id_names_the_package_that_registers_it(
    tmp_path, monkeypatch, gym, known
):
    installed(tmp_path, gym, f"{gym}>=0.21")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=f"walks.envs registers .*: pass '{known}'"):
        registry.constructor("Installed-v1")
    assert packages.registering("Installed-v2") is None


def test_the_error_of_an_id_that_no_package_registers_says_how_to_name_one():
    with pytest.raises(UserError, match="pass 'package:Qwxyz-v1'; expected a Gym"):
        registry.constructor("Qwxyz-v1")
    with pytest.raises(UserError, match=f"importing {MODULE} does not register it"):
        registry.constructor(f"{MODULE}:Qwxyz-v1")


def test_an_id_without_a_version_is_found_in_its_module():
    env = registry.constructor(f"{MODULE}:Versionless")()
    assert "mission" in env.observation_space.spaces


LEFT_OUT = {"name": "FilterObservation", "filter_keys": ["direction", "image"]}


def test_the_error_of_a_text_in_a_dict_has_the_wrapper_that_leaves_it_out():
    with pytest.raises(UserError, match=r'Text at mission.*wrappers=\[{"name": "Filt'):
        tfb.make_env(third_party.mission, 1, 0)
    with tfb.make_env(third_party.mission, 1, 0, wrappers=[LEFT_OUT]) as env:
        assert [*env.spec.observation_space.spaces] == ["direction", "image"]


def test_the_error_of_several_rewards_names_a_wrapper():
    with tfb.make_env(third_party.objectives, 1, 0) as env:
        state, _ = env.init(seed=1)
        with pytest.raises(EnvError, match=r"shape \(2,\).*weighted sum.*LinearReward"):
            env.step(state, np.zeros([1], np.int32))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (third_party.Agents, "an environment of several agents.*a function that retur"),
        (third_party.OldSpaces, r"BoxSpace of .*install gym.*\[gym\]"),
    ],
)
def test_what_is_no_gymnasium_env_is_refused_as_class_and_as_instance(kind, message):
    with pytest.raises(EnvError, match=f"the constructor returned .*{message}"):
        tfb.make_env(kind, 1, 0)
    with pytest.raises(UserError, match=f"env is of type .*{message}"):
        tfb.make_env(kind())


def test_the_error_of_a_missing_argument_says_where_to_pass_it(linear, tmp_path):
    def make(df):
        return gymnasium.make("CartPole-v1")

    with pytest.raises(UserError, match=r"needs arguments: .*'df'; pass them as"):
        tfb.train(linear, env=make, num_workers=0, logdir=tmp_path)
