"""Mean return of our algorithms after gradient steps on logged rows."""

from __future__ import annotations

import os
import tempfile

from benchmarks.inside import session
from benchmarks.logged.play import play
from benchmarks.work.logged import HIDDEN, LEARNERS, Played


def measure(work: Played) -> dict[str, float]:
    """Return the mean return of the last checkpoint, and its error."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tfagents_batch as tfb

    with tempfile.TemporaryDirectory() as folder:
        run = tfb.train_offline(
            data=work.table,
            config=f"rows/{work.learner}",
            steps=work.steps,
            seed=work.seed,
            eval_every=0,
            progress=False,
            logdir=folder,
            threads=1,
            settings={
                "batch_size": LEARNERS[work.learner].batch,
                "network": {"hidden": HIDDEN},
                "histograms": False,
            },
        )
        agent = run.load(env=work.env, checkpoint="newest")
        return play(lambda observation: agent.predict(observation)[0], work)


if __name__ == "__main__":
    session.figures(lambda: None, measure, Played)
