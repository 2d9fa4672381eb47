"""Lines of a learning benchmark, made up."""

from benchmarks.thresholds import OURS, PEER, TASKS

RUN = {
    "date": "2026-01-01T00:00:00+00:00",
    "commit": "abc",
    "machine": {"cpu": "A CPU", "cores": 2, "load": 0.1},
}


def line(contender, number, seconds, reached=True):
    own = {
        OURS: {"workers": 2},
        PEER: {"vectorisation": "dummy", "threads": 1},
    }
    return {
        "row": "cartpole-475",
        "title": "CartPole-v1, mean return 475",
        "goal": 2,
        "cache": "cold",
        "contender": contender,
        "round": number,
        "config": TASKS["cartpole-475"].work.config(),
        "reached": reached,
        "seconds": seconds,
        "steps": 1000 * number,
        "curve": [[500, seconds / 2, 20.0], [1000 * number, seconds, 480.0]],
        "phases": {
            "import": 1.0,
            "construction": 0.5,
            "first_iteration": 2.0,
            "training": seconds - 3.5,
        },
        "own": own[contender],
    }


def lines(ours, theirs):
    """Rounds of ``(seconds, reached)`` pairs."""
    found = [line(OURS, i, *pair) for i, pair in enumerate(ours, 1)]
    return found + [line(PEER, i, *pair) for i, pair in enumerate(theirs, 1)]
