from gym.wrappers.order_enforcing import OrderEnforcing
from gym.wrappers.time_limit import TimeLimit

__all__ = ["OrderEnforcing", "TimeLimit"]
