"""Networks of users: Keras models and builders, checked and adapted."""

from tfagents_batch.nn.user.actor_critic import actor_critic
from tfagents_batch.nn.user.fresh import distinct

__all__ = ["actor_critic", "distinct"]
