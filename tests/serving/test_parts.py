"""Policies of Dict and Tuple actions: agents, exports and the server."""

import contextlib

import numpy as np
import pytest

from tests.serving import cases
from tests.serving.served import InProcess
from tfagents_batch import spaces
from tfagents_batch.errors import UserError
from tfagents_batch.serving import export
from tfagents_batch.serving.decision_function import DecisionFunction
from tfagents_batch.serving.predictor import Predictor

CASE = "ppo", "dict", "parts"
SPACE = cases.ACTIONS["parts"]
OBSERVATION = {"a": [0.5, -1.0, 2.0], "b": {"c": 2, "d e": [1, 0]}, "f": [3, -4]}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return the agent of a policy, and the folder of its export."""
    policy, spec = cases.policy_of(*CASE)
    folder = tmp_path_factory.mktemp("exports") / "parts"
    origin = export.Origin({"name": "run", "algorithm": "ppo"})
    result = export.write(policy, spec, 10**6, "onnx", folder, 0.0, origin)
    assert not result.parity.problems
    return cases.agent_of(policy, spec), folder


def test_an_agent_and_a_predictor_return_the_same_nest(exported):
    agent, folder = exported
    rows = cases.rows(agent.observation_space, 5, seed=3)
    actions, _ = agent.predict(rows)
    assert actions.keys() == {"kind", "how far"} and len(actions["how far"]) == 2
    for index in range(5):
        one = spaces.pack(SPACE, [x[index] for x in spaces.flatten(SPACE, actions)])
        assert SPACE.contains(one), one
    answer = Predictor.load(folder).act(rows)
    flat = [spaces.flatten(SPACE, x) for x in (actions, answer["action"])]
    for ours, theirs in zip(*flat, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    single, _ = agent.predict(
        spaces.pack(
            agent.observation_space,
            [x[0] for x in spaces.flatten(agent.observation_space, rows)],
        )
    )
    assert SPACE.contains(single)


GRU = {"network": {"core": "gru", "hidden": [8]}}


@pytest.mark.parametrize(
    ("algorithm", "format", "observation", "settings"),
    [
        ("ppo", "litert", "part masks", {}),
        ("sac", "litert", "part masks", {}),
        pytest.param("sac", "saved_model", "dict", {}, marks=pytest.mark.slow),
        pytest.param("sac", "onnx", "part masks", GRU, marks=pytest.mark.slow),
        pytest.param("ppo", "saved_model", "part masks", GRU, marks=pytest.mark.slow),
        pytest.param("ppo", "onnx", "dict", GRU, marks=pytest.mark.slow),
    ],
)
def test_masks_and_memory_are_exported(
    algorithm, format, observation, settings, tmp_path
):
    policy, spec = cases.policy_of(algorithm, observation, "parts", settings)
    origin = export.Origin({"name": "run", "algorithm": "ppo"})
    result = export.write(policy, spec, 10**6, format, tmp_path / "x", 0.0, origin)
    assert not result.parity.problems


def test_sampled_actions_are_in_the_space(exported):
    agent, _ = exported
    rows = cases.rows(agent.observation_space, 50, seed=4)
    actions, _ = agent.predict(rows, deterministic=False)
    flat = spaces.flatten(SPACE, actions)
    assert len(np.unique(flat[2])) == 3  # the kinds, after "how far"
    for index in range(50):
        assert SPACE.contains(spaces.pack(SPACE, [x[index] for x in flat]))


def test_the_server_answers_with_the_nest(exported):
    agent, folder = exported
    with contextlib.ExitStack() as stack:
        served = InProcess(folder, stack)
        asked = {"observations": [OBSERVATION, OBSERVATION]}
        status, _, answer = served.ask("/v1/act", asked)
        assert status == 200
        _, _, document = served.ask("/openapi.json")
    decided = [x["action"] for x in answer["decisions"]]
    observation = {
        "a": np.float32(OBSERVATION["a"]),
        "b": {"c": 2, "d e": np.int8([1, 0])},
        "f": np.int16(OBSERVATION["f"]),
    }
    expected, _ = agent.predict(observation)
    for action in decided:
        assert action["kind"] == expected["kind"]
        for ours, theirs in zip(expected["how far"], action["how far"], strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)
    content = document["paths"]["/v1/act"]["post"]["responses"]["200"]["content"]
    assert "how far" in str(content) and "action_kind" not in str(content)


def test_decisions_of_parts_are_not_logged_and_do_not_explore(exported, tmp_path):
    _, folder = exported
    with contextlib.ExitStack() as stack, pytest.raises(UserError, match="Dict"):
        InProcess(folder, stack, log=str(tmp_path))
    policy, spec = cases.policy_of(*CASE)
    with pytest.raises(UserError, match=r"several parts; expected 0"):
        DecisionFunction(policy, spec, 0, 0.5)
