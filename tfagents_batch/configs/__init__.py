"""Presets: ``PRESETS[name]()`` is the config of an experiment.

Presets with a plain name are tuned for this package. A comment gives the target return;
``docs/results.md`` has the results and the commands that reproduce them. Presets in
``batch_ppo/``, ``ga3c_paper/`` and ``deck/`` have settings of the originals. Those in
``rows/`` are for logged rows.
"""

from tfagents_batch.configs import (
    atari,
    batch_ppo,
    box2d,
    classic_control,
    continuous,
    deck,
    dqn,
    ga3c,
    mujoco,
    policy_gradient,
    rows,
    tensorflow,
)

PRESETS = {
    **classic_control.PRESETS,
    **box2d.PRESETS,
    **mujoco.PRESETS,
    **atari.PRESETS,
    **tensorflow.PRESETS,
    **batch_ppo.PRESETS,
    **dqn.PRESETS,
    **continuous.PRESETS,
    **policy_gradient.PRESETS,
    **ga3c.PRESETS,
    **deck.PRESETS,
    **rows.PRESETS,
}
# Presets that are not supported, and what to do; docs/decisions/0008-no-pybullet.md.
REFUSED = batch_ppo.REFUSED
