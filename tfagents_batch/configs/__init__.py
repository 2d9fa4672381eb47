"""Presets: ``PRESETS[name]()`` is the config of an experiment, by family of tasks.

Those with a plain name are tuned here, and a comment says what they aim at; what was
reached, and the command that shows it, stands in ``docs/results.md``. Those of
``batch_ppo/`` have the settings of the original instead.
"""

from tfagents_batch.configs import (
    atari,
    batch_ppo,
    box2d,
    classic_control,
    mujoco,
    tensorflow,
)

PRESETS = {
    **classic_control.PRESETS,
    **box2d.PRESETS,
    **mujoco.PRESETS,
    **atari.PRESETS,
    **tensorflow.PRESETS,
    **batch_ppo.PRESETS,
}
# Presets that there are not, and what to do; docs/decisions/0008-no-pybullet.md.
REFUSED = batch_ppo.REFUSED
