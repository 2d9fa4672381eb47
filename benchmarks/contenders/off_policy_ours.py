"""Our DQN, SAC and TD3 as ``tfagents_batch`` trains them: in rounds."""

from __future__ import annotations

import fractions
from collections.abc import Mapping
from typing import Any

from benchmarks.inside import session, trained
from benchmarks.work.off_policy import OffPolicy

IN_GRAPH = "its rules are TensorFlow, inside the program"
_ROUNDS = 2**31 - 1  # of a call, which ends with its steps


def start(work: OffPolicy, in_graph: bool = False, **options: Any) -> trained.Trained:
    """Return a session.

    Args:
      work: what to train on.
      in_graph: use the environment of the same name that is written in TensorFlow.
      **options: further options of ``train``, such as ``device``.
    """
    run = config(work, in_graph, **options)

    def same(algorithm: Any) -> dict[str, Any]:
        fields = _same(work, algorithm)
        return fields | {"environment": described(run)} if in_graph else fields

    contender = trained.Trained(
        run,
        same,
        lambda *counts: check(work, *counts),
        lambda step: (step + (work.block_steps if step else work.first_block), _ROUNDS),
        differs={"environment": IN_GRAPH} if in_graph else {},
    )
    contender.own["num_envs"] = work.num_envs
    contender.own["env_steps_between_trainings"] = work.num_envs * work.rollout_steps
    return contender


def check(
    work: OffPolicy, before: int, after: int, rounds: int, metrics: Mapping[str, float]
) -> None:
    """Refuse a call with another number of updates than that of the work.

    Args:
      work: what to train on.
      before, after: environment steps before and after the call.
      rounds: its rounds; metrics are means over them.
      metrics: its metrics.
    """
    updates = round(float(metrics.get("grad/updates", 0.0)) * rounds)
    right = work.updates_due(before, after)
    names = [x for x in metrics if x.endswith("skipped")]  # shares of updates
    skipped = float(sum(metrics[name] for name in names))
    if updates != right or skipped:
        raise RuntimeError(
            f"{updates} updates, {skipped:g} skipped, for steps {before} to "
            f"{after}; expected {right}, none skipped"
        )


def _same(work: OffPolicy, algorithm: Any) -> dict[str, Any]:
    settings = algorithm.config
    delay = getattr(settings, "policy_delay", 1)
    updates, networks = {"values": settings.train_updates}, [algorithm.network]
    if work.algorithm != "dqn":
        updates["actor"] = fractions.Fraction(settings.train_updates, delay)
        networks.append(algorithm.critics)
    if work.algorithm == "sac" and settings.temperature is None:
        updates["temperature"] = settings.train_updates
    return work.same(
        trained.parameters(*networks),
        updates,
        settings.train_every,
        settings.batch_size,
        settings.target_every * delay,
        {
            "learning_rate": settings.learning_rate.value,
            "gamma": settings.gamma,
            "target_tau": settings.target_tau,
            "target_entropy": getattr(settings, "target_entropy", None),
            "n_step": settings.n_step,
            "double_q": getattr(settings, "target", "max") != "max",
        },
    )


def config(work: OffPolicy, in_graph: bool = False, **options: Any) -> Any:
    """Return the config of the run; arguments as of ``start``."""
    if in_graph:  # a function of ``work.env`` has the name of the game as an argument
        name = work.env_kwargs.get("game", work.env)
        options |= {"env": f"tf/{name}", "env_kwargs": {}, "num_workers": None}
    replay = {"capacity": work.capacity, "steps": work.rollout_steps}
    return trained.config(
        work, work.algorithm, _settings(work), replay=replay, **options
    )


def _settings(work: OffPolicy) -> dict[str, Any]:
    from tfagents_batch.schedules import Linear

    names = [
        *("gamma", "learning_rate", "batch_size", "train_every", "train_updates"),
        *("warmup_steps", "target_tau"),
    ]
    own: dict[str, Any] = {"network": {"hidden": work.hidden}}
    own["optimizer_epsilon"] = work.adam_epsilon
    own["max_gradient_norm"] = work.gradient_norm
    if work.network == "small_cnn":
        own["network"] = {"cnn": "small"}
    if work.algorithm == "dqn":
        names.append("target_every")
        own |= {"n_step": 1, "target": "max", "loss": "huber"}
        own["epsilon"] = Linear(*work.epsilon)
    elif work.algorithm == "sac":
        names.append("target_entropy")
    else:
        names += ["policy_delay", "noise"]
    return {name: getattr(work, name) for name in names} | own


def described(run: Any) -> dict[str, Any]:
    """Describe an environment in the graph, as ``works.describe`` does."""
    from tfagents_batch.envs.tf import names

    limit = names.make(run.env, run.env_kwargs).max_episode_steps
    own = {"id": run.env, "kwargs": run.env_kwargs}
    return own | {"wrappers": [], "time_limit": limit}


if __name__ == "__main__":
    session.main(trained.load, start, OffPolicy)
