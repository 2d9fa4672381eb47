"""Runs whose updates are on a second device; in a process of its own.

The second of two logical CPUs takes the place of a GPU: XLA refuses a program on one
CPU that touches a variable of the other one. (It moves int32 variables, unlike a GPU,
so their absence on the second device is checked.)

    python -m tests.support.two_devices ppo-whole dqn-split

prints a line of JSON for each run: its name, devices, and the largest difference
between its weights and those of the same run on one device, relative to 1 or their
size. With ``--gpu`` as the first argument, the second device is a GPU.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import gymnasium
import keras
import numpy as np
import tensorflow as tf

import tfagents_batch as tfb
from tests.support.space_env import SpaceEnv
from tfagents_batch import config as configs
from tfagents_batch import nest
from tfagents_batch.devices import placement
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.training.assembly import Experiment
from tfagents_batch.training.config import RunConfig, with_options
from tfagents_batch.types import Collected

SECOND = "/CPU:1"
UPDATES = 20
BRIEF = {"network": {"hidden": [8]}, "histograms": False}
ON_POLICY = {"num_envs": 4, "rollout.length": 8}
EPISODES = {"num_envs": 2, "rollout.episodes": 2}
REPLAY = {"num_envs": 2, "replay.capacity": 200}
LEARN = BRIEF | {"batch_size": 8, "warmup_steps": 20}
PPO = BRIEF | {"minibatch_size": 16, "epochs": 2}
GRAPH, PYTHON = {"env": "tf/CartPole-v1"}, {"env": "CartPole-v1", "num_workers": 1}
SWING = {"env": "tf/Pendulum-v1"}
PYTHON_SWING = {"env": "Pendulum-v1", "num_workers": 1}


# Its observations are images, so that networks convolve.
IMAGES = functools.partial(
    SpaceEnv,
    gymnasium.spaces.Box(0, 255, (36, 36, 1), np.uint8),
    gymnasium.spaces.Box(-1, 1, (2,)),
)


@dataclasses.dataclass(frozen=True)
class Fixed:
    """Experience from Python that does not depend on the policy."""

    name, kind, unit, program = "fixed", "rollouts", "env steps", "host"
    beside, takes_turns = 1, False

    def check(self, run):
        return self

    def environments(self, recipe, run):
        env = recipe.make(run.num_envs, **run.make_options(run.num_envs))
        return (env,), env.spec

    def transitions(self, num_envs, limit):
        return 5 * num_envs

    def open(self, envs, algorithm, seed, run, placement):
        return FixedSource(envs, algorithm, seed)


class FixedSource:
    """Two rollouts of 5 steps in a fetch, by a policy that never learns."""

    compilable = False

    def __init__(self, envs, algorithm, seed):
        self.envs = envs
        self._rollout = Rollout(envs[0], algorithm.make_policy(), 5, seed)
        self._seed = 0

    def fetch(self, step):
        with placement.host():
            made = [self._collect() for _ in range(2)]
        trajectory = nest.map(lambda *x: tf.stack(x), *(x.trajectory for x in made))
        return Collected(40, True, 2, {}, trajectory)

    def _collect(self):
        self._seed += 1
        seed, step = tf.constant(self._seed), tf.constant(0, tf.int64)
        return tf.function(self._rollout.collect, autograph=False)(seed, step)

    def publish(self, policy):
        pass

    def report(self, seconds):
        return {}

    def traces(self):
        return 1

    named_variables = staticmethod(dict)
    start = check = close = staticmethod(lambda *_: None)


Run = tuple[str, dict[str, Any], dict[str, Any]]


def ppo(options: dict[str, Any], **settings: Any) -> Run:
    return "ppo", ON_POLICY | options, PPO | settings


def dqn(**settings: Any) -> Run:
    return "dqn", REPLAY | PYTHON, LEARN | settings


# name: algorithm, options of the run, settings of the algorithm
RUNS: dict[str, Run] = {
    "ppo-whole": ppo(GRAPH),
    "ppo-split": ppo(PYTHON),
    "ppo-full": ppo(PYTHON | {"compile": "full"}),
    "ppo-update": ppo(PYTHON | {"compile": "update"}),
    "ppo-off": ppo(PYTHON | {"compile": "off"}),
    "ppo-overlap": ppo(PYTHON | {"overlap": True}),
    "ppo-overlap-whole": ppo(GRAPH | {"overlap": True}),
    "ppo-episodes": ("ppo", EPISODES | PYTHON, PPO),
    "ppo-recurrent": ppo(PYTHON, network={"hidden": [8], "core": "lstm"}),
    "ppo-images": ppo({"num_envs": 2, "num_workers": 1}),
    "ppo-penalty": ppo(PYTHON, objective="kl"),
    "a2c-split": ("a2c", ON_POLICY | PYTHON, BRIEF),
    "a2c-whole": ("a2c", ON_POLICY | GRAPH, BRIEF),
    "a2c-host": ("a2c", {"num_envs": 4, "num_workers": 0} | PYTHON, BRIEF),
    "reinforce-split": ("reinforce", EPISODES | PYTHON, BRIEF),
    "dqn-whole": ("dqn", REPLAY | GRAPH, LEARN),
    "dqn-split": ("dqn", REPLAY | PYTHON | {"replay.prioritized": True}, LEARN),
    "dqn-update": ("dqn", REPLAY | PYTHON | {"compile": "update"}, LEARN),
    "dqn-quantile": dqn(distribution="qr", atoms=4, n_step=3),
    "dqn-categorical": dqn(distribution="c51", atoms=5, v_min=0.0, v_max=50.0),
    "dqn-munchausen": dqn(target="munchausen"),
    "dqn-softmax": dqn(temperature=0.5),
    "dqn-sarsa": dqn(target="sarsa"),
    "dqn-dueling": dqn(network={"hidden": [8], "dueling": True}),
    "sac-split": ("sac", REPLAY | PYTHON_SWING, LEARN),
    "sac-whole": ("sac", REPLAY | SWING, LEARN),
    "sac-discrete": ("sac", REPLAY | PYTHON, LEARN),
    "td3-split": ("td3", REPLAY | PYTHON_SWING, LEARN),
    "ddpg-split": ("ddpg", REPLAY | PYTHON_SWING, LEARN),
}


def main(names: list[str]) -> None:
    if names[:1] == ["--gpu"]:
        names = names[1:]
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
        # Products of the CPU's precision.
        tf.config.experimental.enable_tensor_float_32_execution(False)
        tf.zeros([])  # afterwards a run on the CPU cannot hide the GPU any more
    else:
        cpu = tf.config.list_physical_devices("CPU")[0]
        parts = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, parts)
        placement.GPU = SECOND
    for name in names:
        result = OTHERS[name]() if name in OTHERS else compared(name)
        print(json.dumps({"run": name} | result), flush=True)


def compared(name: str) -> dict[str, Any]:
    """Train on one device and on two; compare."""
    first, _ = trained(name, "cpu")
    second, facts = trained(name, "gpu")
    return {"difference": difference(first, second), **facts}


def trained(name: str, device: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Make ``UPDATES`` updates; return the weights, and where they are."""
    algorithm, options, settings = RUNS[name]
    if name == "a2c-host":
        options = options | {"source": Fixed()}
    config = make_config(algorithm, options | {"device": device}, settings)
    env = IMAGES if name == "ppo-images" else None
    with Experiment(config, config.recipe(env)) as experiment:
        experiment.start(0)
        most = 10 * UPDATES
        for _ in range(most):
            experiment.program(2**62, 3)
            if int(experiment.algorithm.policy.version) >= UPDATES:
                break
        found = experiment.placement
        source = getattr(experiment.source, "variables", ())
        variables = [*experiment.algorithm.variables, *source]
        facts = {
            "mode": experiment.program.mode,
            "collect": found.collect,
            "update": found.update,
            "traces": experiment.program.traces(),
            "updates": int(experiment.algorithm.policy.version),
            "learner": places(experiment.named_variables().values()),
            "dtypes": dtypes(variables),
        }
        return values(experiment.named_variables()), facts


def resumed() -> dict[str, Any]:
    """Stop and resume a run on the second device; compare with a straight one."""
    found = []
    options = ON_POLICY | GRAPH | {"device": "gpu", "eval_every": 64, "settings": PPO}
    for stops in ((192,), (96, 192)):
        with tempfile.TemporaryDirectory() as folder:
            run = tfb.train("ppo", steps=stops[0], logdir=folder, seed=3, **options)
            for steps in stops[1:]:
                run = tfb.train(resume=run.logdir, steps=steps)
            weights = values(tfb.load(run.logdir)._policy.named_variables())
            played = tfb.evaluate(run.logdir, episodes=2).mean_return
            found.append({"return": np.asarray(played)} | weights)
    return {"difference": difference(*found)}


def moved(name: str) -> dict[str, Any]:
    """Resume a run on the other device; compare with one that stays on the CPU."""
    algorithm, options, settings = RUNS[name]
    options = options | {"seed": 3, "eval_every": 0, "settings": settings}
    found = []
    for first, second in ("cpu", "cpu"), ("cpu", "gpu"), ("gpu", "cpu"):
        with tempfile.TemporaryDirectory() as folder:
            run = tfb.train(algorithm, steps=64, logdir=folder, device=first, **options)
            run = tfb.train(resume=run.logdir, steps=128, device=second)
            found.append(values(tfb.load(run.logdir)._policy.named_variables()))
    return {"difference": max(difference(found[0], x) for x in found[1:])}


def asynchronous(**changes: Any) -> dict[str, Any]:
    """Train GA3C; say where its weights and its predictors are."""
    options = {"num_envs": 4, "env": "CartPole-v1", "num_workers": 2, "device": "gpu"}
    options |= changes
    config = make_config("ga3c", options, BRIEF)
    with Experiment(config, config.recipe()) as experiment:
        experiment.start(0)
        metrics = experiment.program(2**62, UPDATES)
        named = experiment.named_variables()
        predictors = [
            variable
            for part in experiment.source.parts
            for holder in (part, part.actor)
            for variable in holder.named_variables().values()
        ]
        finite = all(np.isfinite(np.asarray(x)).all() for x in named.values())
        return {
            "learner": places(named.values()),
            "predictors": places(predictors),
            "finite": finite and "loss/total" in metrics,
            "mode": experiment.program.mode,
        }


def make_config(algorithm, options, settings) -> RunConfig:
    base = RunConfig(algorithm=algorithm)
    every = {"seed": 3, "eval_every": 0, "steps": 10**6}
    base = with_options(base, every | options)
    settings = configs.replace(base.settings, settings, "algorithm.")
    return configs.replace(base, {"settings": settings})


def values(named) -> dict[str, np.ndarray]:
    return {name: np.asarray(x) for name, x in named.items()}


def dtypes(variables) -> list[str]:
    """Return the names of the dtypes of variables on the second device."""
    return sorted(
        {
            tf.as_dtype(x.dtype).name
            for x in variables
            if places([x]) == [placement.GPU[1:]]
        }
    )


def places(variables) -> list[str]:
    """Return the devices of variables."""
    found = (x.value if isinstance(x, keras.Variable) else x for x in variables)
    return sorted({x.device[-5:] for x in found})


def difference(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> float:
    """Return the largest difference, relative to 1 or the size of the numbers."""
    assert first.keys() == second.keys()
    largest = 0.0
    for name, x in first.items():
        x, y = x.astype(float), second[name].astype(float)
        scale = np.maximum(np.abs(x), 1.0)
        largest = max(largest, np.max(np.abs(x - y) / scale, initial=0.0))
    return largest


OTHERS: dict[str, Callable[[], dict[str, Any]]] = {
    "resume": resumed,
    "moved-replay": functools.partial(moved, "dqn-whole"),
    "moved-split": functools.partial(moved, "dqn-softmax"),
    "moved-rollout": functools.partial(moved, "ppo-whole"),
    "ga3c-whole": asynchronous,
    "ga3c-split": functools.partial(asynchronous, compile="update"),
}


if __name__ == "__main__":
    main(sys.argv[1:])
