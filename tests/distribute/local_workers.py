"""Workers of a pool in this process, which fail when a test says so."""

from __future__ import annotations

from tfagents_batch.distribute import worker


class LocalWorkers:
    """Satisfies ``pool.RemoteWorkers``; orders are done when they are waited for.

    Args:
      count: number of workers.
      job: what they do.
      order: workers in the order in which they are ready; those that are not named
        are never ready.

    Attributes:
      given: all orders, as (worker, order).
      lost: workers that are replaced before their next order.
    """

    def __init__(self, count, job, order=None):
        self.count, self._job = count, job
        self._workers = [worker.RolloutWorker(job) for _ in range(count)]
        self._waiting, self._order = {}, order or range(count)
        self.given, self.lost, self.closed = [], set(), False

    def submit(self, index, order, weights):
        assert index not in self._waiting
        self.given.append((index, order))
        if index in self.lost:
            self.lost.discard(index)
            self._workers[index].close()
            self._workers[index] = worker.RolloutWorker(self._job)
            order = order._replace(start=order.start + 1)
        self._waiting[index] = order, weights

    def wait(self, seconds):
        for index in self._order:
            if index in self._waiting:
                yield index, self._workers[index].collect(*self._waiting.pop(index))
                return

    def metrics(self):
        return {}

    def events(self):
        return []

    def close(self):
        if not self.closed:
            self.closed = True
            for each in self._workers:
                each.close()


def starter(made, **options):
    """Return a function ``pools.start`` that appends its workers to ``made``."""

    def start(settings, job):
        made.append(LocalWorkers(settings.parts, job, **options))
        return made[-1], made[-1]._workers[0].facts()

    return start
