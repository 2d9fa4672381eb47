import importlib


class Spec:
    def __init__(self, id, entry_point, max_episode_steps):
        self.id, self.entry_point = id, entry_point
        self.max_episode_steps = max_episode_steps


class Registry:
    def __init__(self):
        self.env_specs = {}

    def make(self, id, **kwargs):
        from gym.wrappers import OrderEnforcing, TimeLimit

        spec = self.env_specs[id]
        module, name = spec.entry_point.split(":")
        env = getattr(importlib.import_module(module), name)(**kwargs)
        env.spec = spec
        env = OrderEnforcing(env)
        limit = spec.max_episode_steps
        return env if limit is None else TimeLimit(env, limit)


registry = Registry()


def register(id, entry_point, max_episode_steps=None):
    registry.env_specs[id] = Spec(id, entry_point, max_episode_steps)


def make(id, **kwargs):
    return registry.make(id, **kwargs)
