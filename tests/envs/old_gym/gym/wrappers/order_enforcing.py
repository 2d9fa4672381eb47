from gym.core import Wrapper


class OrderEnforcing(Wrapper):
    pass
