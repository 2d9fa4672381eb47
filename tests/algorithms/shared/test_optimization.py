"""Tests of the settings of gradient steps, which all algorithms share."""

import re

import numpy as np
import pytest

from tests.algorithms import cases
from tests.nn.cases import ACTIONS
from tfagents_batch.algorithms import REGISTRY
from tfagents_batch.errors import UserError


@pytest.mark.parametrize("name", ["a2c", "ga3c"])
@pytest.mark.parametrize("setting", [{"beta_1": 0.5}, {"weight_decay": 0.01}])
def test_settings_of_adam_are_refused_with_rmsprop(name, setting):
    (only,) = setting
    message = f"{only} is {setting[only]}, but the optimizer is rmsprop, which has none"
    with pytest.raises(UserError, match=re.escape(message)):
        REGISTRY[name][1](**setting).check()
    REGISTRY[name][1](**setting, optimizer="adam").check()


@pytest.mark.parametrize(
    ("name", "action", "kept", "settings"),
    [
        ("dqn", "discrete", (), {}),
        ("pqn", "discrete", (), {}),
        ("ppo", "box", ("std",), {}),
        ("sac", "box", ("log_temperature",), {}),
        ("sac", "box", ("log_temperature", "std"), {"exploration": "sde"}),
    ],
)
def test_weight_decay_shrinks_all_weights_but_numbers_with_another_meaning(
    name, action, kept, settings
):
    rate, decay = 1e-2, 3.0
    more = {"epochs": 1} if name in ("ppo", "pqn") else {}
    more |= {"minibatch_size": None} if name == "ppo" else {}
    plain, shrunk = (
        cases.make(name, ACTIONS[action], learning_rate=rate, **settings, **more, **x)
        for x in ({}, {"weight_decay": decay})
    )
    start = cases.named(plain)
    batch = cases.experience(plain)
    for agent in (plain, shrunk):
        cases.update(agent, batch, 0, 5000)
    learned = {
        key: x
        for key, x in cases.named(plain).items()
        if key.startswith(("policy/", "learner/critics", "learner/log_temperature"))
        and np.any(x != start[key])
    }
    assert len(learned) >= 4
    assert all(any(x in key for key in learned) for x in kept)
    for key, expected in learned.items():
        if not any(x in key for x in kept):
            expected = expected - rate * decay * start[key]
        found = cases.named(shrunk)[key]
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6, err_msg=key)


def test_the_mean_of_gradients_decays_by_its_setting():
    agents = [cases.make("dqn", beta_1=x, max_gradient_norm=None) for x in (0.5, 0.9)]
    batch = cases.experience(agents[0])
    for agent in agents:
        cases.update(agent, batch, 0, 5000)
    rules = [agent.learner.optimizers["network"].rule for agent in agents]
    size = len(rules[0].variables) // 2
    for low, high in zip(*(x.variables[2 : 1 + size] for x in rules), strict=True):
        np.testing.assert_allclose(low, 5 * high.numpy(), 1e-5)  # 0.5 g and 0.1 g
    for one, other in zip(*(x.mean_gradients() for x in rules), strict=True):
        np.testing.assert_allclose(one, other, 1e-5, 1e-8)
