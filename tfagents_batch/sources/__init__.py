"""Sources of experience by name: ``REGISTRY[name]`` is an ``experience.Experience``.

An algorithm names one of them. Its settings have its name in front, such as
``--rollout.length``.
"""

from tfagents_batch.logged.table_settings import TableSettings
from tfagents_batch.sources.queue_settings import QueueSettings
from tfagents_batch.sources.replay_settings import ReplaySettings
from tfagents_batch.sources.rollout_settings import RolloutSettings

_ALL = RolloutSettings, ReplaySettings, QueueSettings, TableSettings
REGISTRY = {each.name: each for each in _ALL}
