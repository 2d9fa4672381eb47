"""Our training to a threshold: the train command with a preset."""

from __future__ import annotations

import tempfile

from benchmarks.inside import learned, session
from benchmarks.work.works import Learning


def load() -> None:
    """Import everything that the train command imports, in the same way."""
    from tfagents_batch.scripts import app

    app.import_tensorflow()
    import tfagents_batch.api  # noqa: F401


def start(work: Learning) -> learned.Learned:
    """Return a session that trains as users do, with logs and checkpoints."""
    from tfagents_batch import api
    from tfagents_batch.scripts import app

    def learn() -> int | None:
        means: list[float] = []
        with tempfile.TemporaryDirectory() as folder, app.saving_programs():
            run = api.train(
                config=work.preset,
                seed=work.seed,
                logdir=folder,
                eval_every=work.eval_every,
                eval_episodes=work.episodes,
                stop_at_return=work.threshold,
                on_evaluation=lambda found: means.append(found.mean_return),
            )
        return run.step if means[-1] >= work.threshold else None

    own = {"preset": work.preset}
    return learned.Learned(work, learn, own, "tensorflow", "keras")


if __name__ == "__main__":
    session.main(load, start, Learning)
