import importlib
import sys
import threading

import gymnasium
import pytest

import tfagents_batch as tfb
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.envs.worker import inherited
from tfagents_batch.errors import UserError


@pytest.fixture
def register():
    """Register ids for one test."""
    before = dict(gymnasium.registry)
    yield gymnasium.register
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


def test_an_id_of_the_script_works_in_a_worker_by_name_and_in_a_function(register):
    register("Script-v0", entry_point=CountingEnv, kwargs={"length": 3})

    def make():
        return gymnasium.make("Script-v0", max_episode_steps=9)

    with tfb.make_env([make, "Script-v0"], num_workers=1) as env:
        assert env.spec.num_envs == 2
        _, timestep = env.init(1)
        assert timestep.observation.shape == (2, 2)


def test_another_id_of_a_known_class_is_sent_too(register):
    point = gymnasium.registry["CartPole-v1"].entry_point
    register("Longer-v0", entry_point=point, max_episode_steps=9)
    found = inherited.ids()
    del gymnasium.registry["Longer-v0"]
    inherited.register_ids(found)
    with gymnasium.make("Longer-v0") as env:
        assert env.spec.max_episode_steps == 9


def test_a_replaced_id_of_gymnasium_is_replaced_in_workers_too(register):
    spec = gymnasium.registry.pop("CartPole-v1")
    register("CartPole-v1", entry_point=CountingEnv)
    found = inherited.ids()
    gymnasium.registry["CartPole-v1"] = spec
    inherited.register_ids(found)
    with gymnasium.make("CartPole-v1") as env:
        assert isinstance(env.unwrapped, CountingEnv)


def test_an_entry_point_is_imported_by_its_first_use_only(
    register, tmp_path, monkeypatch
):
    code = "from tfagents_batch.envs.testing import CountingEnv\n"
    code += "class Late(CountingEnv):\n    metadata = {'render_modes': ['late']}\n"
    (tmp_path / "late_module.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    register("Late-v0", entry_point=importlib.import_module("late_module").Late)
    found = inherited.ids()
    del sys.modules["late_module"], gymnasium.registry["Late-v0"]
    inherited.register_ids(found)
    assert "late_module" not in sys.modules
    with gymnasium.make("Late-v0") as env:
        assert env.metadata["render_modes"] == ["late"]
    assert sys.modules.pop("late_module")


def test_an_id_that_a_worker_cannot_load_leaves_the_others_usable(
    register, tmp_path, monkeypatch
):
    (tmp_path / "lost_module.py").write_text("class Lost:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    lost = importlib.import_module("lost_module").Lost()
    register("Lost-v0", entry_point=CountingEnv, kwargs={"length": lost})
    register("Other-v0", entry_point=CountingEnv)
    found = inherited.ids()
    del sys.modules["lost_module"]
    (tmp_path / "lost_module.py").unlink()
    importlib.invalidate_caches()
    del gymnasium.registry["Lost-v0"], gymnasium.registry["Other-v0"]
    inherited.register_ids(found)
    assert "Lost-v0" not in gymnasium.registry
    gymnasium.make("Other-v0").close()


def test_an_entry_point_that_cannot_be_sent_says_what_to_do(register):
    lock = threading.Lock()
    register("Locked-v0", entry_point=lambda: lock)
    wanted = r"'Locked-v0' cannot be sent .* module:Locked-v0"
    with pytest.raises(UserError, match=wanted):
        tfb.make_env(lambda: gymnasium.make("Locked-v0"), 1, 1)
