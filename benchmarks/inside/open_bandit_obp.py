"""Estimates of Open Bandit Pipeline, whose modules are imported from its wheel."""

from __future__ import annotations

import sys
import types
from typing import Any

from benchmarks.inside import session
from benchmarks.work.logged import Bandit


def measure(work: Bandit) -> dict[str, Any]:
    """Return the estimates by name; those of switch-DR are lists over thresholds."""
    import numpy as np

    e = _import_from(work.wheel)
    with np.load(work.rows) as rows:
        given = {
            "reward": rows["reward"],
            "action": rows["action"],
            "pscore": rows["propensity"],
            "action_dist": rows["policy"][:, :, None],
            "position": np.zeros(len(rows["reward"]), int),
        }
        model = {"estimated_rewards_by_reg_model": rows["model"][:, :, None]}
        thresholds = rows["thresholds"].tolist()

    def value(estimator: Any, **arrays: Any) -> float:
        return float(estimator.estimate_policy_value(**given, **arrays))

    return {
        "DM": value(e.DirectMethod(), **model),
        "IPS": value(e.InverseProbabilityWeighting()),
        "SNIPS": value(e.SelfNormalizedInverseProbabilityWeighting()),
        "DR": value(e.DoublyRobust(), **model),
        "self-normalized DR": value(e.SelfNormalizedDoublyRobust(), **model),
        "switch-DR": [
            value(e.SwitchDoublyRobust(lambda_=threshold), **model)
            for threshold in thresholds
        ],
    }


def _import_from(wheel: str) -> Any:
    """Return obp.ope.estimators; obp's other modules need PyTorch and are left out."""
    for name in ("obp", "obp.ope"):
        package = types.ModuleType(name)
        package.__path__ = [f"{wheel}/{name.replace('.', '/')}"]
        sys.modules[name] = package
    torch: Any = types.ModuleType("torch")
    torch.Tensor = torch.tensor = object  # of checks that are not called here
    sys.modules["torch"] = torch
    from obp.ope import estimators

    return estimators


if __name__ == "__main__":
    session.figures(measure)
