"""Our GA3C, its A3C mode, and A2C with and without waiting for all environments."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.contenders.ppo_ours import Trained, parameters
from benchmarks.inside import graph, session
from benchmarks.work.asynchronous import Asynchronous
from benchmarks.work.stepping import versions

_ALONE = "each agent learns from its own steps, as in A3C"
_FEWER = "what is in flight belongs to the next update"
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

    unit = "env steps"

    def __init__(self, work: Asynchronous, mode: str = "ga3c"):
        from tfagents_batch.training.experiment import Experiment

        self._work, self._updates, self._seconds = work, 0, 0.0
        self._waits: dict[str, list[float]] = {}  # shares of time of each block
        experiment = Experiment(_config(work, mode), env=work.constructors())
        rows = work.length if mode == "a3c" else work.train_rows
        try:
            self.same = work.same(parameters(experiment.algorithm.network), rows)
            experiment.start(0)
        except BaseException:
            experiment.close()
            raise
        why = {"a3c": _ALONE, "first": _FEWER}.get(mode)
        self.differs = {} if why is None else {"transitions_an_update": why}
        self._rows = rows if mode == "ga3c" else None  # checked after each block
        self._trained = Trained(experiment)
        self._own = self._trained.own("auto") | {"mode": mode}
        self.versions = versions("tensorflow", "keras")

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
        found = session.repeat(self._block, seconds, blocks)
        self._seconds = found.seconds
        return found

    def close(self) -> None:
        self._trained.close()

    def _block(self) -> int:
        steps, metrics = self._trained.call(2**62, self._work.block)
        found = metrics.get("async/update_rows", 0.0)
        if self._rows and not (1 - _RESTARTS) * self._rows <= found <= self._rows:
            raise RuntimeError(f"updates of {found:g} rows; expected {self._rows}")
        self._updates += self._trained.program.rounds
        for name in _WAITS:
            if f"async/{name}" in metrics:
                self._waits.setdefault(name, []).append(metrics[f"async/{name}"])
        return steps


def _config(work: Asynchronous, mode: str) -> Any:
    from tfagents_batch.algorithms import REGISTRY
    from tfagents_batch.config import replace
    from tfagents_batch.training.config import RunConfig, with_options

    algorithm, workers, rows = "ga3c", work.num_workers, work.train_rows
    queue: dict[str, Any] = {"length": work.length}
    if mode == "a3c":
        workers, rows = work.num_envs, work.length
        alone = {
            "predictors": work.num_envs,
            "predict_batch": 1,
            "rollouts_per_call": 1,
        }
        queue |= alone
    source = {"queue": queue | {"train_batch": rows, "capacity": 4 * rows}}
    if mode in ("first", "lockstep"):
        algorithm, workers = "a2c", work.num_envs
        source = {"rollout": {"length": work.length}}
        if mode == "first":
            source["rollout"]["wait_for"] = work.wait_for
    network = {"hidden": work.hidden}
    if work.network != "mlp":
        network = {"cnn": work.network}
    settings = {
        "gamma": work.gamma,
        "learning_rate": work.learning_rate,
        "entropy_scale": work.entropy_scale,
        "normalize_observation": False,
        "normalize_return": False,
        "network": network,
    }
    options = {
        "env": work.env,
        "steps": work.steps,
        "seed": work.seed,
        "num_envs": work.num_envs,
        "num_workers": workers,
        "eval_every": 0,
        "compile_cache": False,  # every warm-up includes the compilation
        **source,
    }
    _, defaults = REGISTRY[algorithm]
    config = RunConfig(algorithm=algorithm, settings=replace(defaults(), settings))
    return with_options(config, options)


if __name__ == "__main__":
    session.main(graph.load, Train, Asynchronous)
