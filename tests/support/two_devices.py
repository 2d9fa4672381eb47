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
import json
import sys
import tempfile
from typing import Any

import gymnasium
import keras
import numpy as np
import tensorflow as tf

import tfagents_batch as tfb
from tfagents_batch import config as configs
from tfagents_batch import nest, placement
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.training.config import RunConfig, with_options
from tfagents_batch.training.experiment import Experiment
from tfagents_batch.training.seeds.experiment import SeedsExperiment
from tfagents_batch.types import Collected

SECOND = "/CPU:1"
UPDATES = 20
BRIEF = {"network": {"hidden": [8]}, "histograms": False}
ON_POLICY = {"num_envs": 4, "rollout.length": 8}
REPLAY = {"num_envs": 2, "replay.capacity": 200}
LEARN = BRIEF | {"batch_size": 8, "warmup_steps": 20}
PPO = BRIEF | {"minibatch_size": 16, "epochs": 2}
GRAPH, PYTHON = {"env": "tf/CartPole-v1"}, {"env": "CartPole-v1", "num_workers": 1}
SWING = {"env": "tf/Pendulum-v1"}
PYTHON_SWING = {"env": "Pendulum-v1", "num_workers": 1}


class Image(gymnasium.Env):
    """Its observations are images, so that networks convolve."""

    observation_space = gymnasium.spaces.Box(0, 255, (36, 36, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left = 5
        return self._observation(), {}

    def step(self, action):
        self._left -= 1
        return self._observation(), float(action), self._left == 0, False, {}

    def _observation(self):
        return self.np_random.integers(0, 255, (36, 36, 1)).astype(np.uint8)


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


# name: algorithm, options of the run, settings of the algorithm
RUNS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "ppo-whole": ("ppo", ON_POLICY | GRAPH, PPO),
    "ppo-split": ("ppo", ON_POLICY | PYTHON, PPO),
    "ppo-full": ("ppo", ON_POLICY | PYTHON | {"compile": "full"}, PPO),
    "ppo-update": ("ppo", ON_POLICY | PYTHON | {"compile": "update"}, PPO),
    "ppo-off": ("ppo", ON_POLICY | PYTHON | {"compile": "off"}, PPO),
    "ppo-overlap": ("ppo", ON_POLICY | PYTHON | {"overlap": True}, PPO),
    "ppo-overlap-whole": ("ppo", ON_POLICY | GRAPH | {"overlap": True}, PPO),
    "ppo-episodes": ("ppo", {"num_envs": 2, "rollout.episodes": 2} | PYTHON, PPO),
    "ppo-recurrent": (
        "ppo",
        ON_POLICY | PYTHON,
        PPO | {"network": {"hidden": [8], "core": "lstm"}},
    ),
    "ppo-images": ("ppo", {"num_envs": 2, "rollout.length": 8, "num_workers": 1}, PPO),
    "ppo-penalty": ("ppo", ON_POLICY | PYTHON, PPO | {"objective": "kl"}),
    "a2c-split": ("a2c", ON_POLICY | PYTHON, BRIEF),
    "a2c-whole": ("a2c", ON_POLICY | GRAPH, BRIEF),
    "a2c-host": ("a2c", {"num_envs": 4, "num_workers": 0} | PYTHON, BRIEF),
    "reinforce-split": (
        "reinforce",
        {"num_envs": 2, "rollout.episodes": 2} | PYTHON,
        BRIEF,
    ),
    "dqn-whole": ("dqn", REPLAY | GRAPH, LEARN),
    "dqn-split": ("dqn", REPLAY | PYTHON | {"replay.prioritized": True}, LEARN),
    "dqn-update": ("dqn", REPLAY | PYTHON | {"compile": "update"}, LEARN),
    "dqn-quantile": (
        "dqn",
        REPLAY | PYTHON,
        LEARN | {"distribution": "qr", "atoms": 4, "n_step": 3},
    ),
    "dqn-categorical": (
        "dqn",
        REPLAY | PYTHON,
        LEARN | {"distribution": "c51", "atoms": 5, "v_min": 0.0, "v_max": 50.0},
    ),
    "dqn-munchausen": (
        "dqn",
        REPLAY | PYTHON,
        LEARN | {"target": "munchausen"},
    ),
    "dqn-softmax": ("dqn", REPLAY | PYTHON, LEARN | {"temperature": 0.5}),
    "dqn-sarsa": ("dqn", REPLAY | PYTHON, LEARN | {"target": "sarsa"}),
    "dqn-dueling": (
        "dqn",
        REPLAY | PYTHON,
        LEARN | {"network": {"hidden": [8], "dueling": True}},
    ),
    "sac-split": ("sac", REPLAY | PYTHON_SWING, LEARN),
    "sac-whole": ("sac", REPLAY | SWING, LEARN),
    "sac-discrete": ("sac", REPLAY | PYTHON, LEARN),
    "td3-split": ("td3", REPLAY | PYTHON_SWING, LEARN),
    "ddpg-split": ("ddpg", REPLAY | PYTHON_SWING, LEARN),
}
OTHERS = (
    "seeds",
    "resume",
    "moved-replay",
    "moved-split",
    "moved-rollout",
    "ga3c-whole",
    "ga3c-split",
)


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
        kind, _, how = name.partition("-")
        other = {
            "seeds": several,
            "resume": resumed,
            "moved": moved,
            "ga3c": asynchronous,
        }
        result = other[kind](how) if name in OTHERS else compared(name)
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
    env = Image if name == "ppo-images" else None
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


def several(how: str) -> dict[str, Any]:
    """Train two seeds as one program."""
    weights = []
    for device in ("cpu", "gpu"):
        options = ON_POLICY | GRAPH | {"device": device}
        config = make_config("ppo", options, PPO)
        experiment = SeedsExperiment(config, [1, 2], config.recipe())
        for _ in range(4):
            experiment.population([10**6] * 2, 3)
        weights.append(values(experiment.population.variables(1)))
        facts = {"collect": experiment.placement.collect}
    return {"difference": difference(*weights), **facts}


def resumed(how: str) -> dict[str, Any]:
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


def moved(how: str) -> dict[str, Any]:
    """Resume a run on the other device; compare with one that stays on the CPU."""
    algorithm, options, settings = {
        "replay": ("dqn", REPLAY | GRAPH, LEARN),
        "split": ("dqn", REPLAY | PYTHON, LEARN),
        "rollout": ("ppo", ON_POLICY | GRAPH, PPO),
    }[how]
    options = options | {"seed": 3, "eval_every": 0, "settings": settings}
    found = []
    for first, second in ("cpu", "cpu"), ("cpu", "gpu"), ("gpu", "cpu"):
        with tempfile.TemporaryDirectory() as folder:
            run = tfb.train(algorithm, steps=64, logdir=folder, device=first, **options)
            run = tfb.train(resume=run.logdir, steps=128, device=second)
            found.append(values(tfb.load(run.logdir)._policy.named_variables()))
    return {"difference": max(difference(found[0], x) for x in found[1:])}


def asynchronous(how: str) -> dict[str, Any]:
    """Train GA3C; say where its weights and its predictors are."""
    options = {"num_envs": 4, "env": "CartPole-v1", "num_workers": 2, "device": "gpu"}
    options |= {"compile": "update"} if how == "split" else {}
    config = make_config("ga3c", options, BRIEF)
    with Experiment(config, config.recipe()) as experiment:
        experiment.start(0)
        metrics = experiment.program(2**62, UPDATES)
        source = experiment.source
        named = experiment.named_variables()
        predictors = [
            *(x for part in source.parts for x in part.named_variables().values()),
            *(
                x
                for part in source.parts
                for x in part.actor.named_variables().values()
            ),
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


if __name__ == "__main__":
    main(sys.argv[1:])
