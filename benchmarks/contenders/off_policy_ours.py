"""Our DQN, SAC, TD3 and TQC as ``tfagents_batch`` trains them: in rounds."""

from __future__ import annotations

import fractions
from collections.abc import Mapping
from typing import Any

from benchmarks.inside import session, trained
from benchmarks.work.off_policy import OffPolicy, Recurrent

_ROUNDS = 2**31 - 1  # of a call, which ends with its steps


def start(work: OffPolicy, **options: Any) -> trained.Trained:
    """Return a session; further options are those of ``train``, such as ``device``."""
    contender = trained.Trained(
        config(work, **options),
        lambda algorithm: _same(work, algorithm),
        lambda *counts: check(work, *counts),
        lambda step: (step + (work.block_steps if step else work.first_block), _ROUNDS),
    )
    contender.own["num_envs"] = work.num_envs
    contender.own["env_steps_between_trainings"] = work.num_envs * work.rollout_steps
    return contender


def check(
    work: OffPolicy, before: int, after: int, rounds: int, metrics: Mapping[str, float]
) -> None:
    """Refuse a call with a wrong number of updates; metrics are means over rounds."""
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
        if work.algorithm != "td3" and settings.temperature is None:
            updates["temperature"] = updates["actor"]
    return work.same(
        trained.parameters(*networks),
        updates,
        settings.train_every,
        samples_an_update=settings.batch_size,
        updates_between_targets=settings.target_every
        * (delay if work.algorithm == "td3" else 1),
        learning_rate=settings.learning_rate.value,
        gamma=settings.gamma,
        target_tau=settings.target_tau,
        target_entropy=getattr(settings, "target_entropy", None),
        n_step=settings.n_step,
        double_q=getattr(settings, "target", "max") != "max",
        **(_memory(settings) if isinstance(work, Recurrent) else {}),
    )


def _memory(settings: Any) -> dict[str, Any]:
    return {
        "core": settings.network.core,
        "cell": "the reset gate multiplies the state",
        "sequence_length": settings.sequence_length,
        "burn_in": settings.burn_in,
        "stored_state": settings.stored_state,
        "windows": "of any steps; restarts inside reset the state",
    }


def config(work: OffPolicy, **options: Any) -> Any:
    """Return the config of the run."""
    from tfagents_batch.schedules import Linear

    names = [
        *("gamma", "learning_rate", "batch_size", "train_every", "train_updates"),
        *("warmup_steps", "target_tau"),
    ]
    own: dict[str, Any] = {
        "network": {"hidden": work.hidden},
        "optimizer_epsilon": work.adam_epsilon,
        "max_gradient_norm": work.gradient_norm,
    }
    if isinstance(work, Recurrent):
        names += ["sequence_length", "burn_in"]
        own["network"] |= {"core": "gru"}
    if work.algorithm == "dqn":
        names.append("target_every")
        own |= {"n_step": 1, "target": "max", "loss": "huber"}
        own["epsilon"] = Linear(*work.epsilon)
    elif work.algorithm == "td3":
        names += ["policy_delay", "noise"]
    else:
        names += ["policy_delay", "target_entropy"]
        own["critic"] = {"dropout": work.dropout, "layer_norm": work.dropout > 0}
        if work.algorithm == "tqc":
            names += ["quantiles", "dropped"]
            own["actor_value"] = "mean"
    settings = {name: getattr(work, name) for name in names} | own
    replay = {"capacity": work.capacity, "steps": work.rollout_steps}
    algorithm = "sac" if work.algorithm == "tqc" else work.algorithm
    return trained.config(work, algorithm, settings, replay=replay, **options)


if __name__ == "__main__":
    session.main(start, *trained.PACKAGES)
