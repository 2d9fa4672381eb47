"""Starts of a run from the agent of another algorithm, for every pair of algorithms.

``python -m tests.algorithms.shared.test_roles`` writes the table in docs/running.md.
"""

import dataclasses
import functools
import itertools
import pathlib
import re
import shutil
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

import tfagents_batch as tfb
from tests.algorithms.cases import KINDS, make
from tests.nn.cases import make_spec, make_steps
from tests.support.brief import QUICK
from tfagents_batch import nest
from tfagents_batch.algorithms import REGISTRY
from tfagents_batch.algorithms.shared import roles
from tfagents_batch.devices.placement import HOST
from tfagents_batch.errors import UserError
from tfagents_batch.training import starting_runs, training_run
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.preprocessing import Preprocessing
from tfagents_batch.training.run_folder import checkpoint, config_file, runs

PAGE = pathlib.Path(tfb.__file__).parents[1] / "docs/running.md"
N = 64  # observations
VECTOR = gs.Box(-3, 3, (3,))
ACTIONS = {
    "box": gs.Box(np.float32([-1, 0]), np.float32([1, 5])),
    "discrete": gs.Discrete(4, start=2),
    "torque": gs.Box(-2, 2, (1,)),  # of Pendulum
}
LIKE = {"normalize_observation": False, "network.activation": "relu"}
SETTINGS = {"ppo": LIKE, "a2c": LIKE, "distill": LIKE}
SETTINGS["bcq"] = {"threshold": 0.0}  # otherwise its filter decides, too
ALIKE = {(old, new) for new, known in roles.ALIKE.items() for old in known}
PAIRS = [(old, new) for new, known in roles.FROM.items() for old in known]
PAIRS = [pair for pair in PAIRS if pair not in ALIKE]


def takes(name, kind):
    return kind in KINDS.get(name, ("discrete", "box"))


def settings_of(name, kind, **further):
    squashes = SETTINGS.get(name) is LIKE and kind == "box"
    box = {"network.mean": "tanh"} if squashes else {}
    return SETTINGS.get(name, {}) | box | further


@functools.cache
def experiment(name, kind, seed=0, network=None, **settings):
    """Return the parts of an experiment that a start from another run needs."""
    chosen = settings_of(name, kind, **settings)
    agent = make(name, ACTIONS[kind], network, VECTOR, seed, **chosen)
    spec = make_spec(VECTOR, ACTIONS[kind])
    config = RunConfig(name, "CartPole-v1", settings=agent.config)
    if config.source.name == "table":
        source = dataclasses.replace(config.source, data="table")
        config = dataclasses.replace(config, source=source)
    return types.SimpleNamespace(
        config=config,
        spec=spec,
        seen=spec,
        algorithm=agent,
        preprocessing=Preprocessing(),
        placement=HOST,
        named_variables=agent.learner.named_variables,
    )


def scramble(agent, seed):
    """Set all that an agent learns to random numbers, but not its optimizer."""
    rng = np.random.default_rng(seed)
    for name, x in agent.learner.named_variables().items():
        if re.match("policy/|learner/(?!optimizer|updates)", name):
            x.assign(rng.normal(0, 0.7, x.shape))


def as_run(parts, logdir, network=None):
    """Return the folder of a run whose only checkpoint is an agent."""
    text = config_file.to_text(parts.config, parts.config.env, network)
    facts = training_run.facts(parts.algorithm, parts.spec)
    folder = runs.create(logdir, "old", 0, text, facts=facts)
    checkpoint.save(folder, 100, parts.named_variables(), {})
    return folder


@pytest.fixture(scope="module")
def run_of(tmp_path_factory):
    """Return a function that returns an agent and the folder of its run."""
    logdir = tmp_path_factory.mktemp("logs")

    @functools.cache
    def run(name, kind):
        old = experiment(name, kind)
        scramble(old.algorithm, 1)
        return old.algorithm, as_run(old, logdir)

    return run


def observed():
    steps = make_steps(VECTOR, 1, N, seed=3)
    return nest.map(lambda x: x[0], steps)


def greedy(agent, step):
    policy = agent.policy
    state = policy.initial_state(N)
    return policy.act(step, state, (), tf.constant(10**6, tf.int64), False)[0].numpy()


def values(agent, step, kind):
    """Return the values of actions by an agent's critics."""
    action = np.random.default_rng(0).uniform(-1, 1, (N, 2)).astype(np.float32)
    return agent.critics(step, action if kind == "box" else None).numpy()


KINDS_OF_ACTIONS = "box", "discrete"
CASES = [(x, new) for x in KINDS_OF_ACTIONS for new in REGISTRY if takes(new, x)]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_pair_starts_with_equal_actions_or_is_refused(run_of, kind, name):
    new = experiment(name, kind, seed=5)
    step = observed()
    for other in (x for x in REGISTRY if takes(x, kind)):
        old, folder = run_of(other, kind)
        scramble(new.algorithm, 2)
        before = greedy(new.algorithm, step)
        alike = other == name or (other, name) in ALIKE
        if not alike and (other, name) not in PAIRS:
            text = f"by '{other}', from which '{name}' cannot start; use {other}"
            with pytest.raises(UserError, match=text) as e:
                starting_runs.take_agent(new, folder, "newest")
            assert "\n" not in str(e.value)
            continue
        started = starting_runs.take_agent(new, folder, "newest")
        expected = greedy(old, step)
        np.testing.assert_allclose(greedy(new.algorithm, step), expected, atol=1e-5)
        assert np.any(before != expected)
        if alike:
            assert "taken" not in started
            continue
        if "critics" in started["taken"]:
            found = [values(x, step, kind) for x in (old, new.algorithm)]
            np.testing.assert_array_equal(*found)
        kept = started["taken"] + started["derived"] + started["new"]
        assert sorted(kept) == sorted(roles.of(new.algorithm))


def test_values_and_their_targets_are_taken_from_bcq(run_of):
    old, folder = run_of("bcq", "discrete")
    new = experiment("dqn", "discrete", seed=5)
    scramble(new.algorithm, 2)
    started = starting_runs.take_agent(new, folder, "newest")
    assert started["left"] == ["filter of actions"]
    step = observed()
    for theirs, own in (
        (old.network.values, new.algorithm.network),
        (old.target, new.algorithm.target),
    ):
        expected, found = theirs(step)[0].q, own(step)[0].q
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_target_actor_is_taken_or_a_copy_of_the_actor(run_of):
    new = experiment("td3", "box", seed=5)
    named = new.named_variables()
    target = [x for k, x in named.items() if k.startswith("learner/target_actor/")]
    actor = [x for k, x in named.items() if k.startswith("policy/")]
    for other in roles.FROM["td3"]:
        old, folder = run_of(other, "box")
        scramble(new.algorithm, 2)
        started = starting_runs.take_agent(new, folder, "newest")
        copied = "target actor" in started["derived"]
        assert copied == (other not in ("crr", "td3_bc"))
        equal = [np.array_equal(*pair) for pair in zip(actor, target, strict=True)]
        assert all(equal) if copied else not any(equal)
        if not copied:
            saved = old.learner.named_variables()
            saved = [
                x for k, x in saved.items() if k.startswith("learner/target_actor")
            ]
            for x, own in zip(saved, target, strict=False):  # without the std
                np.testing.assert_array_equal(own, x)


def test_the_temperature_of_sac_and_cql_is_taken(run_of):
    new = experiment("sac", "box", seed=5)
    variable = new.named_variables()["learner/log_temperature"]
    for other in ("sac", "cql"):
        old, folder = run_of(other, "box")
        scramble(new.algorithm, 2)
        starting_runs.take_agent(new, folder, "newest")
        saved = old.learner.named_variables()["learner/log_temperature"]
        assert variable.numpy() == saved.numpy()
    before = variable.numpy()
    started = starting_runs.take_agent(new, run_of("iql", "box")[1], "newest")
    assert "temperature" in started["new"] and variable.numpy() == before


def test_an_std_after_tanh_is_not_one_before_it(run_of):
    new = experiment("sac", "box", seed=5)
    scramble(new.algorithm, 2)
    head = new.algorithm.network.heads[1]
    before = head.kernel.numpy()
    started = starting_runs.take_agent(new, run_of("crr", "box")[1], "newest")
    assert "std before tanh" in started["new"]
    assert "std after tanh" in started["left"]
    np.testing.assert_array_equal(head.kernel, before)
    starting_runs.take_agent(new, run_of("cql", "box")[1], "newest")
    np.testing.assert_array_equal(
        head.kernel, run_of("cql", "box")[0].network.heads[1].kernel
    )


@pytest.mark.parametrize(
    ("kind", "old", "new", "settings", "pattern"),
    [
        (
            *("box", "bc", "ppo", {"normalize_observation": True}),
            r"this run, --algorithm.normalize_observation=true; pass "
            r"--algorithm.normalize_observation=false$",
        ),
        (
            *("box", "iql", "sac", {"normalize_return": True}),
            r"pass --algorithm.normalize_return=false$",
        ),
        (
            *("discrete", "bc", "a2c", {"network.activation": "tanh"}),
            r"pass --algorithm.network.activation=relu$",
        ),
        (
            *("box", "iql", "sac", {"num_critics": 3}),
            r"this run, --algorithm.num_critics=3; pass --algorithm.num_critics=2$",
        ),
        (
            *("box", "iql", "sac", {"quantiles": 5, "critic.batch_renorm": True}),
            r"pass --algorithm.quantiles=0 --algorithm.critic.batch_renorm=false$",
        ),
        (
            *("discrete", "bcq", "dqn", {"distribution": "qr", "network.noisy": True}),
            "pass --algorithm.network.noisy=false --algorithm.distribution=mean$",
        ),
    ],
)
def test_an_error_names_the_flags_of_the_other_network(
    run_of, kind, old, new, settings, pattern
):
    parts = experiment(new, kind, **settings)
    with pytest.raises(UserError, match=pattern):
        starting_runs.take_agent(parts, run_of(old, kind)[1], "newest")


def test_an_error_names_the_shapes_that_differ(run_of):
    folder = run_of("bc", "box")[1]
    new = experiment("sac", "box", seed=5)
    wider = make_spec(gs.Box(-3, 3, (5,)), ACTIONS["box"])
    wider = types.SimpleNamespace(**vars(new) | {"spec": wider, "seen": wider})
    with pytest.raises(UserError, match=r"init_from: .* does not fit: policy/network"):
        starting_runs.take_agent(wider, folder, "newest")
    old = run_of("iql", "box")[0]
    text = r"^critics: \(2, 5, 8\) in that run, \(3, 5, 8\) in this one$"
    with pytest.raises(roles.Misfit, match=text):
        roles.take(old, experiment("sac", "box", num_critics=3).algorithm)
    other = experiment("sac", "torque", seed=5)
    with pytest.raises(UserError, match=r"has the action space Box\(.*use an env"):
        starting_runs.take_agent(other, folder, "newest")


def own_network(observation_space, action_space):
    return keras.Sequential([keras.layers.Dense(8, "tanh", name="own")])


def test_an_own_network_has_to_be_passed_again(run_of, tmp_path):
    old = experiment("bc", "box", network=own_network)
    scramble(old.algorithm, 1)
    folder = as_run(old, tmp_path, own_network)
    new = experiment("sac", "box", seed=5, network=own_network)
    started = starting_runs.take_agent(new, folder, "newest", own_network)
    assert started["taken"] == [roles.LAYERS, roles.MEAN]
    step = observed()
    expected = greedy(old.algorithm, step)
    np.testing.assert_allclose(greedy(new.algorithm, step), expected, atol=1e-5)
    with pytest.raises(UserError, match=r"has the built-in network, and .*own_network"):
        starting_runs.take_agent(experiment("sac", "box", seed=5), folder, "newest")
    for name in ("sac", "ppo"):
        new = experiment(name, "box", seed=5)
        with pytest.raises(UserError, match="this run has your own network"):
            built_in = run_of("bc", "box")[1]
            starting_runs.take_agent(new, built_in, "newest", own_network)


@pytest.mark.parametrize(
    ("damaged", "pattern"),
    [
        ("config.json", r"config.json cannot be read"),
        ("run.json", r"init_from: run.json of damaged is damaged"),
        ("checkpoints/*/state.json", r"init_from: no intact checkpoint \(newest\)"),
    ],
)
def test_a_damaged_run_is_one_clear_error(run_of, tmp_path, damaged, pattern):
    folder = shutil.copytree(run_of("bc", "box")[1], tmp_path / "damaged")
    (path,) = folder.glob(damaged)
    path.write_text('{"action_space": {}}' if damaged == "run.json" else "{")
    new = experiment("sac", "box", seed=5)
    scramble(new.algorithm, 2)
    before = [x.numpy() for x in new.named_variables().values()]
    with pytest.raises(UserError, match=pattern) as e:
        starting_runs.take_agent(new, folder, "newest")
    assert "\n" not in str(e.value)
    np.testing.assert_equal([x.numpy() for x in new.named_variables().values()], before)


def test_critics_of_any_kind_start_beside_an_actor_without_critics(run_of):
    settings = {"quantiles": 5, "critic.batch_renorm": True}
    new = experiment("sac", "box", **settings)
    taken = starting_runs.take_agent(new, run_of("bc", "box")[1], "newest")
    assert "critics" in taken["new"]


def test_actions_of_rows_without_an_environment_need_it(run_of, tmp_path):
    old, new = experiment("iql", "torque"), experiment("sac", "box")
    alone = types.SimpleNamespace(**vars(old))
    alone.config = dataclasses.replace(old.config, env="")
    with pytest.raises(UserError, match="train it from its rows with --env=CartPole"):
        starting_runs.take_agent(new, as_run(alone, tmp_path), "newest")
    folder = run_of("iql", "torque")[1]
    with pytest.raises(UserError, match="environment with the same action space"):
        starting_runs.take_agent(new, folder, "newest")


@pytest.mark.parametrize("old", ["iql", "td3"])
@pytest.mark.parametrize(("gamma", "warned"), [(0.97, False), (0.9, True)])
def test_a_warning_names_another_gamma(run_of, old, gamma, warned):
    new = experiment("td3", "box", gamma=gamma)
    folder = run_of(old, "box")[1]
    warnings = starting_runs.take_agent(new, folder, "newest")["warnings"]
    assert [f"gamma is {gamma}" in x and "gamma=0.99" in x for x in warnings] == (
        [True] if warned else []
    )
    assert not starting_runs.take_agent(new, run_of("bc", "box")[1], "newest")[
        "warnings"
    ]


def test_a_run_says_what_it_has_taken(run_of, tmp_path, monkeypatch):
    shown = []

    def run(experiment, folder, callbacks, state, events, profiled):
        console = types.SimpleNamespace(message=shown.append)
        for event in events:
            training_run._explain(event, console)
        (event,) = events
        assert runs.facts(folder)["started_from"].items() <= event.items()
        shown.append(event)
        raise UserError("before the update is traced")

    monkeypatch.setattr(training_run, "run", run)
    _, folder = run_of("iql", "torque")
    options = QUICK | {"logdir": tmp_path, "init_from": folder, "steps": 2000}
    del options["rollout.length"]
    settings = {"network.hidden": (8,), "gamma": 0.9}
    with pytest.raises(UserError, match="before the update is traced"):
        tfb.train("sac", "tf/Pendulum-v1", settings=settings, **options)
    line, warning, event = shown
    assert line == (
        f"starting from the agent of {folder.name} after 100 steps; taken: actor's "
        "layers, mean action, critics, target critics; new: std before tanh, "
        "temperature; only in iql: std after tanh, values of states"
    )
    assert warning.startswith("warning: gamma is 0.9, but")
    assert event["algorithm"] == "iql"
    assert event["not_loaded"] == event["new"] + event["left"]


def test_the_page_has_the_table_of_pairs():
    assert with_table(PAGE.read_text()) == PAGE.read_text(), (
        "run python -m tests.algorithms.shared.test_roles"
    )


def with_table(text):
    """Return the text of a page with the current table of pairs."""
    return re.sub(r"\| from \| to .*?\n(?!\|)", table(), text, flags=re.DOTALL)


def table():
    """Return the table of pairs, as found by a start of each one."""
    rows = ["| from | to | taken | new | not used |", "|---|---|---|---|---|"]
    shown = {}
    for (old, new), kind in itertools.product(PAIRS, KINDS_OF_ACTIONS):
        if not (takes(old, kind) and takes(new, kind)):
            continue
        agents = (experiment(x, kind).algorithm for x in (old, new))
        found = roles.take(*agents)
        actions = f", {kind.capitalize()}" if takes_both(old, new) else ""
        fresh = [*found.new, *(f"{x} (a copy of the actor)" for x in found.derived)]
        parts = (", ".join(x) or "nothing" for x in (found.taken, fresh, found.left))
        shown[f"`{old}`{actions}", new] = " | ".join(parts)
    rows += [f"| {old} | `{new}` | {parts} |" for (old, new), parts in shown.items()]
    return "\n".join(rows) + "\n"


def takes_both(*names):
    return all(takes(x, kind) for x in names for kind in KINDS_OF_ACTIONS)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
