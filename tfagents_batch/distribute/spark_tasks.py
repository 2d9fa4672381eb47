"""Code that runs in the Python processes of Spark's executors.

A partition meets another process most of the time. So a process keeps TensorFlow, a
policy and environments, which are the same for every task, but no episode: a task
depends on its order and the weights alone. A task that Spark runs again, elsewhere or
twice, gives the same episodes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from tfagents_batch.distribute import wire
from tfagents_batch.distribute.wire import Order

_kept: dict[str, Any] = {}  # the worker of the newest job, by the name of the job


def player(
    name: str, job: Any, weights: Any = None
) -> Callable[[Iterator[Order | None]], Iterator[Any]]:
    """Return a function of a partition, from orders to pieces or exceptions.

    An exception of the user's code is a result, so that Spark does not try it again.
    Without an order, the result is the spec of the environments. ``name`` is that of
    the job, for processes that know it already; the job, pickled, and the weights by
    name are broadcasts.
    """
    versions = wire.versions()  # of the run

    def play(orders: Iterator[Order | None]) -> Iterator[Any]:
        sent = None if weights is None else weights.value
        for order in orders:
            try:
                worker = _worker(name, job, versions)
                found = worker.facts() if order is None else worker.collect(order, sent)
            except Exception as error:
                found = wire.portable(error)
            yield found

    return play


def _worker(name: str, job: Any, versions: dict[str, str]) -> Any:
    """Return the worker of this process, which is made for its first task."""
    if name not in _kept:
        from tfagents_batch.distribute.worker import RolloutWorker

        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        wire.check_versions(versions, wire.versions())
        for former in _kept.values():
            former.close()
        _kept.clear()
        _kept[name] = RolloutWorker(wire.unpickled(job.value))
    return _kept[name]
