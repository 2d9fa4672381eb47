"""Tests of the presets, and that those of batch-ppo have the original settings."""

import dataclasses
import json
import pathlib
import re

import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.nn.cases import make_steps
from tfagents_batch import algorithms, config, nest, schedules
from tfagents_batch.configs import PRESETS, REFUSED
from tfagents_batch.errors import UserError
from tfagents_batch.logged.table_settings import TableSettings
from tfagents_batch.training.config import RunConfig, with_options

ROOT = pathlib.Path(__file__).parents[2]

# From the last version of the original's configs.py, with newer environments and a new
# time limit of Reacher: env, max_length, steps, episodes per update, discount,
# normalize_ranges, sequences per minibatch, sequence length, number of weights.
TASKS = {
    "pendulum": ("Pendulum-v1", 200, 1e6, 30, 0.995, True, 20, 50, 42_003),
    "cartpole": ("CartPole-v1", 500, 2e5, 30, 0.995, False, None, None, 42_503),
    "reacher": ("Reacher-v5", 50, 5e6, 60, 0.985, True, None, None, 44_905),
    "cheetah": ("HalfCheetah-v5", 1000, 1e7, 30, 0.99, True, None, None, 48_113),
    "halfcheetah": ("HalfCheetah-v5", 1000, 1e7, 30, 0.99, True, None, None, 48_113),
    "walker": ("Walker2d-v5", 1000, 1e7, 30, 0.995, True, None, None, 48_113),
    "hopper": ("Hopper-v5", 1000, 1e7, 60, 0.995, True, None, None, 45_407),
    "ant": ("Ant-v5", 1000, 2e7, 30, 0.995, True, None, None, 83_517),
    "humanoid": ("Humanoid-v5", 1000, 5e7, 60, 0.995, True, None, None, 181_635),
}
# Settings that all tasks share.
DEFAULTS = {
    "objective": "kl",  # no clipped ratio
    "gae_lambda": 1.0,  # not set in the original: Monte Carlo
    "value_target": "return",
    "learning_rate": 1e-4,
    "optimizer_epsilon": 1e-8,  # default of TensorFlow 1
    "epochs": 25,
    "max_gradient_norm": None,
    "entropy_scale": 0.0,
    "value_scale": 1.0,
    "value_clip": None,
    "kl.target": 0.01,
    "kl.init_penalty": 1.0,
    "kl.adapt_low": 0.7,
    "kl.adapt_high": 1.3,
    "kl.adapt_factor": 1.5,
    "kl.cutoff_factor": 2.0,
    "kl.cutoff_scale": 1000.0,
    "kl.reduction": "sequence",
    "kl_stop": None,
    "normalize_advantage": "batch",
    "normalize_observation": True,
    "observation_clip": 5.0,
    "normalize_epsilon": 1e-4,
    "normalize_return": "per_step",
    "reward_clip": 10.0,
}

NETWORK = {
    "hidden": [200, 100],
    "activation": "relu",
    "initializer": "glorot",
    "policy_scale": 0.1,
    "mean": "tanh",
    "std": "softplus",
    "init_std": 0.35,
    "min_std": 0.0,
    "core": "none",
}


def differs(found, expected):
    return {k: found[k] for k in expected if found[k] != expected[k]}


OF_ROWS = {name for name in PRESETS if name.startswith("rows/")}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_valid_and_survives_json(name):
    preset = PRESETS[name]()
    if name in OF_ROWS:
        preset = dataclasses.replace(preset, source=TableSettings("table"))
    preset = preset.check()
    plain = config.to_dict(preset)
    parts = {
        name: config.from_dict(type(getattr(preset, name)), plain.pop(name))
        for name in ("settings", "source")
    }
    assert config.replace(config.from_dict(RunConfig, plain), parts) == preset


def kind_of(preset):
    """Return what determines the variables of an agent for given spaces."""
    return preset.algorithm, json.dumps(config.to_dict(preset.settings.network))


@pytest.fixture(scope="module")
def agents():
    """Return agents by kind and spaces; to create them takes most of the time."""
    return {}


def created():
    """Return all presets; slow are those that need no other code than earlier ones."""
    found, seen = [], set()
    for name, make in PRESETS.items():
        preset = make()
        if name in OF_ROWS:
            continue
        # The games of GA3C have the same settings, so one of them is enough.
        env = "ALE" if name.startswith("ga3c") else preset.env
        agent = kind_of(preset)
        quick = not {env, agent} <= seen or name.startswith("batch_ppo/")
        seen |= {env, agent}
        marks = [] if quick else [pytest.mark.slow]
        found.append(pytest.param(name, marks=marks))
    return found


# Box2D's SWIG module crashes if this warning of its import is an error.
@pytest.mark.filterwarnings("ignore:builtin type [Ss]wig:DeprecationWarning")
@pytest.mark.parametrize("name", created())
def test_a_preset_creates_its_agent_for_its_environment(name, agents):
    """The extras of their environments are part of [dev], so none may be missing."""
    preset = PRESETS[name]()
    processes = {} if preset.env.startswith("tf/") else {"num_workers": 0}
    kind, _ = algorithms.REGISTRY[preset.algorithm]
    settings = schedules.resolve(preset.settings, preset.steps)
    options = {"env_kwargs": preset.env_kwargs, "wrappers": preset.wrappers}
    with tfb.make_env(preset.env, 1, **processes, **options) as env:
        spaces = env.spec.observation_space, env.spec.action_space
        key = str((kind_of(preset), spaces))
        if key not in agents:
            agents[key] = kind(settings, env.spec)
        agent = agents[key]
        drawn = make_steps(env.spec.observation_space, 1, 1)
        step = nest.map(lambda x: x[0], drawn)
        policy = agent.policy
        noise = nest.map(lambda x: x[0], policy.noise((1, 1), 0))
        now = tf.constant(0, tf.int64)
        action, *_ = policy.act(step, policy.initial_state(1), noise, now, True)
        if processes:  # tests/envs/tf/test_contract.py steps the others
            env.step(env.init(0)[0], action)
        if name.startswith("batch_ppo/"):
            _, limit, *_, weights = TASKS[name.rpartition("/")[2]]
            assert env.spec.max_episode_steps == limit
            assert agent.network.count_params() == weights
            assert not getattr(env.spec.action_space, "is_bounded", lambda: False)()


def test_the_presets_of_the_readme_exist():
    tuned = {
        *("pendulum", "cartpole", "reacher", "halfcheetah", "cheetah", "walker"),
        *("hopper", "ant", "humanoid", "pong", "breakout", "lunarlander", "acrobot"),
        *("mountaincar", "mountaincar-continuous", "bipedalwalker", "cartpole-hidden"),
    }
    assert tuned <= {*PRESETS}
    assert {f"batch_ppo/{name}" for name in TASKS} <= {*PRESETS}
    assert PRESETS["cheetah"]() == PRESETS["halfcheetah"]()
    pages = [ROOT / "docs/running.md", *(ROOT / "docs/algorithms").glob("*.md")]
    text = "".join(page.read_text() for page in pages)
    for name in PRESETS:
        assert f"`{name}`" in text, name


def test_the_page_has_the_steps_of_every_preset():
    units, found = {"k": 1_000, "M": 1_000_000}, {}
    page = (ROOT / "docs/running.md").read_text()
    table = page.partition("| presets | environments | steps |")[2].partition("\n\n")[0]
    for row in table.splitlines()[2:]:
        _, names, _, steps, *_ = row.split("|")
        names = re.findall(r"`([\w/-]+)`", re.sub(r"\(or .*?\)", "", names))
        numbers = [
            int(n) * units[unit] for n, unit in re.findall(r"(\d+)([kM])", steps)
        ]
        numbers *= len(names) if len(numbers) == 1 else 1
        found |= dict(zip(names, numbers, strict=True))
    aliases = {"cheetah", "batch_ppo/cheetah"}
    assert found == {x: PRESETS[x]().steps for x in {*PRESETS} - aliases - OF_ROWS}


@pytest.mark.parametrize("name", TASKS)
def test_a_preset_of_batch_ppo_has_the_settings_of_the_original(name):
    env, limit, steps, episodes, discount, ranges, chunks, length, _ = TASKS[name]
    preset = config.to_dict(PRESETS[f"batch_ppo/{name}"]())
    settings = preset.pop("settings")
    assert preset["env"] == env and preset["steps"] == steps
    assert (preset["num_envs"], preset["eval_episodes"]) == (30, 30)
    assert preset["source"]["episodes"] == episodes
    (stack,) = preset["wrappers"]
    assert stack["name"] == "standard_stack" and stack["max_episode_steps"] == limit
    assert stack.get("normalize_ranges", True) == ranges
    assert settings["gamma"] == discount
    assert settings["sequence_length"] == length
    assert settings["minibatch_size"] == (None if chunks is None else chunks * length)
    assert settings["drop_last"] == (chunks is not None)
    assert differs(config.flat(settings), DEFAULTS) == {}
    assert differs(settings["network"], NETWORK) == {}


def test_the_bullet_ant_preset_is_refused_with_an_alternative():
    assert not {*REFUSED} & {*PRESETS}
    with pytest.raises(
        UserError, match=r"config 'batch_ppo/bullet_ant' does not exist.*PyBullet"
    ):
        tfb.train(config="batch_ppo/bullet_ant")


def test_length_and_episodes_of_rollouts_replace_each_other():
    preset = PRESETS["batch_ppo/ant"]()
    changed = with_options(preset, {"rollout.length": 64}).check()
    assert (changed.source.length, changed.source.episodes) == (64, None)
    back = with_options(changed, {"rollout": {"episodes": 30}}).check()
    assert back.source.episodes == 30


def test_the_presets_of_ga3cs_paper_have_its_settings():
    """Values of the original's Config.py; see the page of the algorithm."""
    preset = config.to_dict(PRESETS["ga3c_paper/pong"]())
    settings, queue = preset["settings"], preset["source"]
    assert preset["env"] == "ALE/Pong-v5"
    assert preset["env_kwargs"] == {"preprocess": "ga3c"}
    assert (preset["num_envs"], queue["predictors"], queue["adjust"]) == (32, 2, True)
    assert queue["length"] == queue["train_batch"] == 5  # TIME_MAX; one agent's steps
    assert queue["capacity"] == 100 * 5  # rollouts in the queue
    expected = {
        "gamma": 0.99,
        "learning_rate": 3e-4,
        "entropy_scale": 0.01,
        "max_gradient_norm": None,
        "optimizer": "rmsprop_tf",
        "optimizer_epsilon": 0.1,
        "reduction": "sum",
        "correction": "log_floor",
        "gae_lambda": 1.0,
        "value_scale": 1.0,
        "normalize_return": "clip",
        "reward_clip": 1.0,
    }
    assert differs(settings, expected) == {}
    assert settings["network"]["cnn"] == "ga3c"
    assert settings["network"]["initializer"] == "fan_in"


def test_a_preset_of_batch_ppo_trains(tmp_path):
    """Pendulum with fewer and shorter episodes; other settings are unchanged."""
    options = {"steps": 120, "num_envs": 2, "num_workers": 0, "rollout.episodes": 4}
    options |= {"eval_every": 0, "compile": "off", "logdir": tmp_path}
    stack = {"name": "standard_stack", "max_episode_steps": 30}
    settings = {"sequence_length": 10, "minibatch_size": 50, "epochs": 2}
    settings["histograms"] = False
    run = tfb.train(
        config="batch_ppo/pendulum", wrappers=[stack], settings=settings, **options
    )
    assert run.step == 120
    assert run.metrics["episode/length_mean"] == 30
    # In both epochs: 12 sequences in minibatches of 5, and 2 are dropped.
    assert run.metrics["grad/updates"] == 2 * 2
