"""Sources of experience by name: ``REGISTRY[name] = (its Config, make)``.

An algorithm names its source. The settings of a source have its name in front, such as
``--rollout.length``. ``make`` creates the source, see ``on_policy.make``.
"""

from tfagents_batch.sources import off_policy, on_policy, queue

REGISTRY = {
    "rollout": (on_policy.Config, on_policy.make),
    "replay": (off_policy.Config, off_policy.make),
    "queue": (queue.Config, queue.make),
}
