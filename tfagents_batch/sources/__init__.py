"""Sources of experience by name: ``REGISTRY[name]`` is an ``interfaces.Experience``.

An algorithm names one of them. Its settings have its name in front, such as
``--rollout.length``.
"""

from tfagents_batch.sources.logged import TableSettings
from tfagents_batch.sources.off_policy import ReplaySettings
from tfagents_batch.sources.on_policy import RolloutSettings
from tfagents_batch.sources.queue import QueueSettings

_ALL = RolloutSettings, ReplaySettings, QueueSettings, TableSettings
REGISTRY = {each.name: each for each in _ALL}
