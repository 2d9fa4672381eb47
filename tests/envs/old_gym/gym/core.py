class Env:
    metadata = {"render.modes": []}  # noqa: RUF012
    spec = None

    def seed(self, seed=None):
        return [seed]

    def render(self, mode="human"):
        raise NotImplementedError

    def close(self):
        pass

    @property
    def unwrapped(self):
        return self


class Wrapper(Env):
    def __init__(self, env):
        self.env = env
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        self.metadata = env.metadata
        self.spec = env.spec

    def reset(self, **kwargs):
        return self.env.reset(**kwargs)

    def step(self, action):
        return self.env.step(action)

    def seed(self, seed=None):
        return self.env.seed(seed)

    def render(self, mode="human", **kwargs):
        return self.env.render(mode, **kwargs)

    def close(self):
        self.env.close()

    @property
    def unwrapped(self):
        return self.env.unwrapped
