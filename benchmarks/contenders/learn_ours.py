"""Our training to a threshold: the train command with a preset."""

from __future__ import annotations

import signal
import tempfile
from typing import Any
from unittest import mock

from benchmarks.inside import watch
from benchmarks.work.works import Learning, versions


def load() -> None:
    """Import everything that the train command imports, in the same way."""
    from tfagents_batch.scripts import app

    app.import_tensorflow()
    import tfagents_batch.api  # noqa: F401


def train(work: Learning, watched: watch.Watch) -> dict[str, Any]:
    """Train as users do, with logs and checkpoints, until the watch ends the run.

    Only the loop is replaced, by one that calls the watch. A run that the watch ends
    gets a signal, and writes a last checkpoint.
    """
    from tfagents_batch import api
    from tfagents_batch.configs import PRESETS
    from tfagents_batch.scripts import app
    from tfagents_batch.training import training_run

    if (env := PRESETS[work.preset]().env).removeprefix("tf/") != work.env:
        raise ValueError(f"preset {work.preset!r} is for {env}, not {work.env}")
    own, make = {}, training_run.Loop

    def loop(experiment, interrupts, output, state):
        watched.phase("construction")
        env = experiment.envs[0]
        own.update(
            preset=work.preset,
            num_envs=env.spec.num_envs,
            workers=getattr(env, "num_workers", None),
            route=getattr(env, "backend", "in the graph"),
            compile_cache=experiment.cache_off or "on",
        )
        act, show = _greedy(experiment.algorithm.policy), output.iteration

        def iteration(step, metrics):
            show(step, metrics)
            if watched.iteration(step, act):
                signal.raise_signal(signal.SIGINT)

        output.iteration = iteration
        return make(experiment, interrupts, output, state)

    with (
        tempfile.TemporaryDirectory(prefix="benchmark-") as folder,
        mock.patch.object(training_run, "Loop", loop),
        app.saving_programs(),
    ):
        api.train(config=work.preset, logdir=folder, seed=work.seed, eval_every=0)
    return {"own": own, "versions": versions("tensorflow", "keras")}


def _greedy(policy: Any) -> watch.Act:
    """Return ``act`` for an evaluation, which is compiled at its first call."""
    import tensorflow as tf

    from tfagents_batch.types import TimeStep

    @tf.function(autograph=False)
    def act(observation):
        batch = observation.shape[0]
        no = tf.zeros([batch], bool)
        step = TimeStep(observation, tf.zeros([batch]), no, no, no, {})
        noise = policy.noise((1, batch), 0)
        now = tf.nest.map_structure(lambda x: x[0], noise)
        state = policy.initial_state(batch)
        trained = tf.constant(0, tf.int64)  # only exploration would follow it
        return policy.act(step, state, now, trained, explore=False)[0]

    def greedy(observation):
        if observation.dtype == "float64":  # workers also convert to float32
            observation = observation.astype("float32")
        return act(tf.constant(observation)).numpy()

    return greedy


if __name__ == "__main__":
    watch.main(load, train)
