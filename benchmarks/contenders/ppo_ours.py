"""Our PPO and A2C as they train, collecting and updating in one program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.inside import session, trained
from benchmarks.work.works import OBJECTIVE, PresetTraining, Training

IN_GRAPH = "its physics are TensorFlow, inside the program"
FASTER = "convolutions in bfloat16 are faster; weights, losses, optimizer are float32"
# Presets of batch-ppo wrap in another order, which costs the same time.
SHUFFLED = "any steps that were collected, as many as the chunks have"


def start(
    work: Training, precision: str = "float32", in_graph: bool = False, **options: Any
) -> trained.Trained:
    """Return a session, with the environment that is TensorFlow if ``in_graph``.

    For ``PresetTraining``, fixed rollouts replace whole episodes, and shuffled steps
    replace chunks. Further options are those of ``train``, such as ``device``.
    """
    from tfagents_batch.envs import registry

    run = config(work, precision, in_graph, **options)
    env, kwargs = (work.env, {}) if in_graph else (run.env, run.env_kwargs)

    def same(algorithm: Any) -> dict[str, Any]:
        fields = work.same(
            trained.parameters(algorithm.network),
            work.gradient_steps(work.batch),
            min(work.minibatch_size, work.batch),
            registry.constructor(env, kwargs),
        )
        if isinstance(work, PresetTraining):
            fields["objective"] = OBJECTIVE
            fields["minibatches"] = f"{work.minibatch_size} steps"
        return fields | {"precision": precision}

    differs = {
        "precision": FASTER if precision != "float32" else "",
        "environment": IN_GRAPH if in_graph else "",
        "minibatches": SHUFFLED if isinstance(work, PresetTraining) else "",
    }
    return trained.Trained(
        run,
        same,
        lambda before, after, rounds, metrics: check(
            work, (after - before) / rounds, metrics
        ),
        lambda step: (trained.FOREVER, work.block),
        differs={key: why for key, why in differs.items() if why},
    )


def check(work: Training, transitions: float, metrics: Mapping[str, float]) -> None:
    """Refuse a call with a wrong number of gradient steps, the mean over iterations."""
    steps, right = metrics["grad/updates"], work.gradient_steps(transitions)
    if steps != right or metrics["grad/skipped"]:
        raise RuntimeError(
            f"{steps:g} gradient steps, a fraction {metrics['grad/skipped']} of "
            f"them skipped, on {transitions} transitions; expected {right}"
        )


def config(work: Training, precision: str, in_graph: bool, **options: Any) -> Any:
    """Return the config of the run."""
    options["precision"] = precision
    if in_graph:
        options |= {"env": f"tf/{work.env}", "num_workers": None}
    elif isinstance(work, PresetTraining):
        limit = {"max_episode_steps": work.rollout_length}
        options["env"] = "benchmarks.work.environments:stacked"
        options["env_kwargs"] = {"name": work.env, **limit}
    names = ["gamma", "gae_lambda", "learning_rate", "entropy_scale"]
    network: dict[str, Any] = {"hidden": None if work.network != "mlp" else work.hidden}
    own = {"value_scale": 2 * work.value_scale, "network": network}  # of half the error
    own["optimizer_epsilon"] = work.adam_epsilon
    own["max_gradient_norm"] = work.gradient_norm
    if work.algorithm != "a2c":
        names += ["epochs", "minibatch_size"]
    if isinstance(work, PresetTraining):
        network |= {"activation": "relu", "init_std": 0.35}
        own["objective"] = "kl"
    else:
        own |= {"normalize_observation": False, "normalize_return": False}
        if work.algorithm == "ppo":
            names.append("clip_ratio")
            own["normalize_advantage"] = True
    settings = {name: getattr(work, name) for name in names} | own
    rollout = {"length": work.rollout_length}
    return trained.config(work, work.algorithm, settings, rollout=rollout, **options)


if __name__ == "__main__":
    session.main(start, *trained.PACKAGES)
