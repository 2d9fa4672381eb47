"""Short runs; also of pages and examples, whose code is run as it is printed."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from tests.support import linear
from tfagents_batch import api
from tfagents_batch.algorithms import REGISTRY, ppo

STEPS = 300
# Options of a run in this process that is not compiled.
QUICK = {
    "steps": STEPS,
    "num_envs": 2,
    "rollout.length": 50,
    "num_workers": 0,
    "eval_every": 0,
    "log_every": 1,
    "compile": "off",
    "compile_cache": False,
}
_STEPS = 160  # of a run of a page or an example
# One or a few updates, because they are slow without XLA.
_FEW = {"warmup_steps": 120, "train_every": 20, "batch_size": 8}
_REPLAY = {"replay": {"capacity": 2000}}, _FEW
# Options and settings of algorithms that learn from a replay.
LESS = dict.fromkeys(("dqn", "sac", "td3", "ddpg"), _REPLAY)


def shorten(patch: Any, folder: Path, linear_ppo: bool) -> None:
    """Change ``train`` and its relatives, so that they end after a moment.

    Args:
      patch: pytest's ``monkeypatch``.
      folder: working folder from here on, in which runs are written.
      linear_ppo: whether "ppo" is the algorithm of ``support/linear.py``, which takes
        no network but the settings of PPO.
    """
    patch.chdir(folder)
    if linear_ppo:
        patch.setitem(REGISTRY, "ppo", (linear.Linear, ppo.PPOConfig))
    train, evaluate = api.train, api.evaluate

    def brief_train(algorithm=None, env=None, **options):
        name = algorithm or "ppo"
        watched = options.get("on_evaluation") or options.get("eval_every")
        options |= {"progress": False, "eval_every": _STEPS // 2 if watched else 0}
        if watched:
            options["eval_episodes"] = 2
        if "resume" in options:
            options["steps"] = min(options.get("steps", _STEPS), 2 * _STEPS)
            return train(algorithm, env, **options)
        options["compile"] = "off"
        options["steps"] = min(options.get("steps", _STEPS), _STEPS)
        source, small = LESS.get(name, ({"rollout": {"length": 16}}, {}))
        if "source" in options:
            source, small = {}, {}
        settings = {"histograms": False} | ({"epochs": 1} if name == "ppo" else {})
        settings |= (options.get("settings") or {}) | small
        if "replay" in source:
            options["replay"] = (options.get("replay") or {}) | source["replay"]
        return train(algorithm, env, **source | options | {"settings": settings})

    def brief_evaluate(logdir, episodes=2, **options):
        if options.get("checkpoint") == "best":  # which only evaluations mark
            options["checkpoint"] = "newest"
        return evaluate(logdir, min(episodes, 2), **options)

    patch.setattr(api, "train", brief_train)
    patch.setattr(api, "evaluate", brief_evaluate)


def run(code: str, folder: Path, name: str = "page.py") -> dict[str, Any]:
    """Run code as the main script of a file; return its names."""
    script = folder / name
    script.write_text(code)
    return runpy.run_path(str(script), run_name="__main__")
