"""Actions and settings that an algorithm refuses."""

import pytest

from tests.algorithms.cases import make
from tests.nn.cases import ACTIONS
from tfagents_batch.errors import UserError

_BOX = r"action space is Discrete.*needs a Box"


@pytest.mark.parametrize(
    ("name", "action", "settings", "text"),
    [
        ("crr_discrete", "box", {}, r"action space is Box.*needs Discrete"),
        *((name, "discrete", {}, _BOX) for name in ("crr", "iql", "td3_bc", "cql")),
        ("crr", "box", {"beta": 0.0}, r"beta is 0"),
        ("crr_discrete", "discrete", {"beta": 0.0}, r"beta is 0"),
        ("iql", "box", {"expectile": 1.0}, r"expectile is 1\.0.*less than 1"),
        ("dqn", "discrete", {"cql_scale": -1.0}, r"cql_scale is -1.*at least 0"),
        ("cql", "box", {"cql_scale": -1.0}, r"cql_scale is -1.*at least 0"),
    ],
)
def test_actions_and_settings_that_do_not_fit_are_refused(name, action, settings, text):
    with pytest.raises(UserError, match=text):
        make(name, ACTIONS[action], **settings)
