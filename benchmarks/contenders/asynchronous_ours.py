"""Our GA3C, and its A3C mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.inside import session, trained
from benchmarks.work.works import Asynchronous

ALONE = "each agent learns from its own steps, as in A3C"
_RESTARTS = 0.15  # largest share of rows in which an episode restarts


def start(work: Asynchronous, mode: str = "ga3c", **options: Any) -> trained.Trained:
    """Return a session of "ga3c", or of "a3c", with further options of ``train``.

    In A3C, each agent predicts for itself and learns from its own steps.
    """
    alone = mode == "a3c"
    right = work.length if alone else work.train_rows

    def check(before: int, after: int, _: int, metrics: Mapping[str, float]) -> None:
        rows = metrics.get("async/update_rows", 0.0)
        if not alone and not (1 - _RESTARTS) * right <= rows <= right:
            raise RuntimeError(f"updates of {rows:g} rows; expected {right}")

    training = trained.Trained(
        config(work, mode, **options),
        lambda algorithm: work.same(trained.parameters(algorithm.network), right),
        check,
        lambda step: (trained.FOREVER, work.block),
        {"transitions_an_update": ALONE} if alone else {},
    )
    training.own["mode"] = mode
    training.block()  # all parts compile before the warm-up
    return training


def config(work: Asynchronous, mode: str, **options: Any) -> Any:
    """Return the config of the run."""
    alone = mode == "a3c"
    # An update takes one rollout of all agents, which has no more rows than it should.
    rows = work.length if alone else work.train_rows
    queue = {"length": work.length, "train_batch": 1, "capacity": 4 * rows}
    if alone:
        options["num_workers"] = work.num_envs
        queue |= {"predictors": work.num_envs, "predict_batch": 1}
        queue |= {"rollouts_per_call": 1, "train_batch": rows}
    mlp = work.network == "mlp"
    settings = {
        "gamma": work.gamma,
        "learning_rate": work.learning_rate,
        "entropy_scale": work.entropy_scale,
        "normalize_observation": False,
        "normalize_return": False,
        "network": {"hidden": work.hidden} if mlp else {"cnn": work.network},
    }
    return trained.config(work, "ga3c", settings, queue=queue, **options)


if __name__ == "__main__":
    session.main(start, *trained.PACKAGES)
