"""Your own algorithm: PPO with a term in its loss, a setting and a metric.

Run: python examples/own_algorithm.py, or with flags:
tfagents-batch train --algorithm=./examples/own_algorithm.py:Calm \
    --env=CartPole-v1 --algorithm.weight=0.2
"""

import dataclasses

import tensorflow as tf

import tfagents_batch as tfb
from tfagents_batch.algorithms import ppo
from tfagents_batch.config import option
from tfagents_batch.ops import masked


@dataclasses.dataclass(frozen=True)
class Settings(ppo.PPOConfig):
    """PPO's settings and one more."""

    weight: float = option(0.1, "weight of the mean squared logit", least=0)


class Calm(ppo.PPO):
    """PPO whose logits stay small."""

    Config = Settings
    METRICS = (*ppo.PPO.METRICS, "loss/logits")

    def _loss(self, batch, mask, scales):
        loss, metrics = super()._loss(batch, mask, scales)
        policy = self.network(batch.steps)[0].policy
        size = masked.mean(tf.square(policy.params["logits"]), mask)
        return loss + self.config.weight * size, metrics | {"loss/logits": size}


if __name__ == "__main__":
    for weight in (0.0, 1.0):
        run = tfb.train(Calm, "CartPole-v1", steps=50_000, settings={"weight": weight})
        mean_return = run.evaluate(algorithm=Calm).mean_return
        print(weight, mean_return, run.metrics["loss/logits"])
