"""Our GA3C, its A3C mode, and A2C with and without waiting for all environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.inside import session, trained
from benchmarks.work.works import Asynchronous

# Declared differences by mode.
DIFFERS = {
    "a3c": "each agent learns from its own steps, as in A3C",
    "first": "what is in flight belongs to the next update",
}
_RESTARTS = 0.15  # largest share of rows in which an episode restarts


def start(work: Asynchronous, mode: str = "ga3c", **options: Any) -> trained.Trained:
    """Return a session in a mode, with further options of ``train``.

    Modes are "ga3c"; "a3c", in which each agent predicts for itself and learns from its
    own steps; "first", A2C that waits for the first environments; "lockstep", A2C that
    waits for all.
    """
    right = work.length if mode == "a3c" else work.train_rows

    def check(before: int, after: int, _: int, metrics: Mapping[str, float]) -> None:
        rows = metrics.get("async/update_rows", 0.0)
        if mode == "ga3c" and not (1 - _RESTARTS) * right <= rows <= right:
            raise RuntimeError(f"updates of {rows:g} rows; expected {right}")

    differs = {"transitions_an_update": DIFFERS[mode]} if mode in DIFFERS else {}
    training = trained.Trained(
        config(work, mode, **options),
        lambda algorithm: work.same(trained.parameters(algorithm.network), right),
        check,
        lambda step: (trained.FOREVER, work.block),
        env=work.constructors(),
        differs=differs,
    )
    training.own["mode"] = mode
    training.block()  # all parts compile before the warm-up
    return training


def config(work: Asynchronous, mode: str, **options: Any) -> Any:
    """Return the config of the run."""
    algorithm, workers, rows = "ga3c", work.num_workers, work.train_rows
    # An update takes one rollout of all agents, which has no more rows than it should.
    queue: dict[str, Any] = {"length": work.length, "train_batch": 1}
    if mode == "a3c":
        workers, rows = work.num_envs, work.length
        alone = {"predictors": work.num_envs, "predict_batch": 1}
        queue |= alone | {"rollouts_per_call": 1, "train_batch": rows}
    source = {"queue": queue | {"capacity": 4 * rows}}
    if mode in ("first", "lockstep"):
        algorithm, workers = "a2c", work.num_envs
        source = {"rollout": {"length": work.length}}
        if mode == "first":
            source["rollout"]["wait_for"] = work.wait_for
    mlp = work.network == "mlp"
    settings = {
        "gamma": work.gamma,
        "learning_rate": work.learning_rate,
        "entropy_scale": work.entropy_scale,
        "normalize_observation": False,
        "normalize_return": False,
        "network": {"hidden": work.hidden} if mlp else {"cnn": work.network},
    }
    # The environments are given by their constructors, which have the arguments.
    fixed = {"env_kwargs": {}, "num_workers": workers}
    return trained.config(work, algorithm, settings, **fixed, **source, **options)


if __name__ == "__main__":
    session.main(start, *trained.PACKAGES)
