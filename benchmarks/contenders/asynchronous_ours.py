"""Our GA3C, its A3C mode, and A2C with and without waiting for all environments."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.inside import session, trained
from benchmarks.work.works import Asynchronous

# Declared differences by mode.
DIFFERS = {
    "a3c": "each agent learns from its own steps, as in A3C",
    "first": "what is in flight belongs to the next update",
}
_WAITS = "update_wait", "predictor_wait"
_RESTARTS = 0.15  # largest share of rows in which an episode restarts


class Train:
    """Updates of the program that the training loop runs, without its logger.

    Args:
      work: what to train on.
      mode: "ga3c"; "a3c", in which each agent predicts for itself and learns from its
        own steps; "first", A2C that waits for the first environments; "lockstep", A2C
        that waits for all.
    """

    def __init__(self, work: Asynchronous, mode: str = "ga3c"):
        self._work, self._updates, self._seconds = work, 0, 0.0
        self._waits: dict[str, list[float]] = {}  # shares of time of each block
        self._checked = mode == "ga3c"
        rows = work.length if mode == "a3c" else work.train_rows
        why = DIFFERS.get(mode)
        self._trained = trained.Trained(
            config(work, mode),
            lambda x: work.same(trained.parameters(x.network), rows),
            self._count,
            lambda step: (trained.FOREVER, work.block),
            env=work.constructors(),
            differs={"transitions_an_update": why} if why else {},
        )
        self._own = self._trained.own | {"mode": mode}
        self.block, self.close = self._trained.block, self._trained.close
        self.same, self.differs = self._trained.same, self._trained.differs
        self.versions = self._trained.versions

    @property
    def own(self) -> dict[str, Any]:
        rate = self._updates / self._seconds if self._seconds else 0.0
        waits = {name: round(statistics.fmean(x), 3) for name, x in self._waits.items()}
        return self._own | {"updates_per_second": round(rate, 2)} | waits

    @property
    def returns(self) -> float | None:
        return self._trained.returns

    def compile(self) -> int:
        """Make some updates, with which all parts are compiled."""
        return self.measure(0.0, 2).count

    def measure(self, seconds: float, blocks: int | None) -> session.Measured:
        self._updates, self._seconds, self._waits = 0, 0.0, {}
        found = session.repeat(self.block, seconds, blocks)
        self._seconds = found.seconds
        return found

    def _count(
        self, before: int, after: int, rounds: int, metrics: Mapping[str, float]
    ) -> None:
        """Count the updates of a call; refuse those of other numbers of rows."""
        found, right = metrics.get("async/update_rows", 0.0), self._work.train_rows
        if self._checked and not (1 - _RESTARTS) * right <= found <= right:
            raise RuntimeError(f"updates of {found:g} rows; expected {right}")
        self._updates += rounds
        for name in _WAITS:
            if f"async/{name}" in metrics:
                self._waits.setdefault(name, []).append(metrics[f"async/{name}"])


def config(work: Asynchronous, mode: str) -> Any:
    """Return the config of the run; arguments as of ``Train``."""
    algorithm, workers, rows = "ga3c", work.num_workers, work.train_rows
    queue: dict[str, Any] = {"length": work.length}
    if mode == "a3c":
        workers, rows = work.num_envs, work.length
        alone = {"predictors": work.num_envs, "predict_batch": 1}
        alone["rollouts_per_call"] = 1
        queue |= alone
    source = {"queue": queue | {"train_batch": rows, "capacity": 4 * rows}}
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
    return trained.config(work, algorithm, settings, **fixed, **source)


if __name__ == "__main__":
    session.main(trained.load, Train, Asynchronous)
