"""Presets of algorithms that learn from logged rows, for ``--data``.

The rows of presets for Discrete actions, other than that of cloning, are 30,000 steps
of a random policy in CartPole-v1, whose episodes have 22 steps, see
``docs/offline.md``. A comment gives the mean return of the best checkpoint in episodes
of at most 200 steps.
"""

from __future__ import annotations

from typing import Any

from tfagents_batch.config import replace
from tfagents_batch.configs.tuned import Preset, trained_by
from tfagents_batch.training.config import RunConfig


def _learned(algorithm: str, steps: int, **settings: Any) -> Preset:
    """Return a preset of an algorithm that makes ``steps`` updates."""

    def preset() -> RunConfig:
        # Imported here because it imports TensorFlow, which names do not need.
        from tfagents_batch.logged.table_settings import TableSettings

        trained = trained_by(algorithm, ("", steps, 8, {}), **settings)()
        return replace(trained, {"source": TableSettings()})

    return preset


# Each sample of a timeline has its rewards already.
_ONE = {"n_step": 1, "warmup_steps": 0, "epsilon": 0.0}

_PENDULUM = {
    "gamma": 0.97,
    "learning_rate": "linear(1e-3, 0)",
    "target_tau": 0.02,
    "network": {"hidden": (64, 64)},
}

PRESETS = {
    # Values of the random policy: the best actions by them. 190 or more.
    "rows/dqn": _learned(
        "dqn",
        20_000,
        **_ONE,
        target="sarsa",
        loss="squared",
        learning_rate="linear(3e-3, 0)",
    ),
    # Samples of a timeline with --n_step=20: with fewer logged rewards in a sample, its
    # target is mostly the value of states that the log does not have. 190 or more.
    "rows/cql": _learned(
        "dqn",
        6000,
        **_ONE,
        cql_scale=1.0,
        loss="squared",
        learning_rate="linear(3e-3, 0)",
    ),
    # The same samples. 190 or more.
    "rows/bcq": _learned(
        "bcq",
        6000,
        loss="squared",
        batch_size=128,
        target_tau=0.01,
        learning_rate="linear(3e-3, 0)",
        imitator={"hidden": (64, 64)},
    ),
    # The same samples. 190 or more.
    "rows/crr_discrete": _learned(
        "crr_discrete", 6000, learning_rate="linear(1e-3, 0)"
    ),
    # Fitted Q iteration, of the same samples. An iteration is the 500 updates between
    # two copies. 190 or more.
    "rows/fqi": _learned(
        "dqn",
        6000,
        **_ONE,
        target="max",
        target_every=500,
        target_tau=1.0,
        loss="squared",
        learning_rate="linear(3e-3, 0)",
    ),
    # 40,000 rows of a half-trained SAC in Pendulum-v1 with a target entropy of 0.6 and
    # a mean return near -700. All have -280 or more, see ``docs/results.md``. Values
    # are in the hundreds, far larger than differences between actions, so scales of
    # advantages are small and the weight of CQL's term is large.
    "rows/td3_bc": _learned("td3_bc", 15_000, **_PENDULUM, bc_alpha=10.0),
    "rows/iql": _learned(
        "iql", 15_000, **_PENDULUM, advantage_scale=0.12, expectile=0.7
    ),
    "rows/cql_box": _learned(
        "cql", 4000, **_PENDULUM, cql_scale=100.0, target_entropy=0.4
    ),
    "rows/crr": _learned("crr", 10_000, **_PENDULUM, beta=5.0, num_critics=8),
    # Rows of any environment, with Discrete or Box actions.
    "rows/bc": _learned("bc", 5000),
}
