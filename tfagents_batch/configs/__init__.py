"""Presets: ``PRESETS[name]()`` is the config of an experiment.

Presets with a plain name are tuned for this package. A comment gives the target return;
``docs/results.md`` has the results and the commands that reproduce them. Presets in
``batch_ppo/``, ``ga3c_paper/``, ``deck/`` and ``zoo/`` have settings of the originals.
Those in ``rows/`` are for logged rows. Their names need no TensorFlow.
"""

from pathlib import Path

from tfagents_batch import config
from tfagents_batch.configs import (
    batch_ppo,
    continuous,
    critics,
    deck,
    dqn,
    policy_gradient,
    ppo,
    rows,
    zoo,
)
from tfagents_batch.errors import UserError
from tfagents_batch.training.run_folder import runs

PRESETS = {
    **ppo.PRESETS,
    **batch_ppo.PRESETS,
    **dqn.PRESETS,
    **continuous.PRESETS,
    **critics.PRESETS,
    **policy_gradient.PRESETS,
    **deck.PRESETS,
    **rows.PRESETS,
    **zoo.PRESETS,
}
# Presets that are not supported, and what to do; docs/decisions/0008-no-pybullet.md.
REFUSED = batch_ppo.REFUSED
FILES = (".json", ".yaml", ".yml")  # of settings, see ``named``


def check_name(name: str) -> None:
    """Refuse a name that is no preset, run folder or file, see ``named.find``."""
    path = Path(name).expanduser()
    if name in REFUSED:
        raise UserError(f"config {name!r} does not exist: {REFUSED[name]}")
    if name in PRESETS or path.suffix in FILES:
        return
    if path.is_dir():
        runs.open_run(path)
        return
    raise UserError(
        config.unknown("config", name, PRESETS)
        + " Others are a run folder, and a .json or .yaml file of settings"
    )
