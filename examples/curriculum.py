"""A callback ends each stage of a curriculum; the next one starts from its agent.

A lock with a combination of 4, 8, then 12 digits; a wrong digit begins anew, and only
the open lock is rewarded. Random play opens the long one once in 3^12 tries. Run:
python examples/curriculum.py
"""

import gymnasium

import tfagents_batch as tfb

COMBINATION = (2, 0, 1, 1, 2, 0, 2, 1, 0, 0, 1, 2)


class Lock(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(13)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, length=12):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = 0, 0
        return 0, {}

    def step(self, action):
        right = action == COMBINATION[self.place]
        self.place, self.time = self.place + 1 if right else 0, self.time + 1
        is_open, late = self.place == self.length, self.time == 2 * self.length
        return self.place, float(is_open), is_open, late and not is_open, {}


def continues(evaluated):
    return evaluated.mean_return < 0.95  # False ends the training


if __name__ == "__main__":
    options = {"env": Lock, "on_evaluation": continues, "eval_every": 10_000}
    for stages in ((12,), (4, 8, 12)):
        start, total = {}, 0
        for length in stages:
            kwargs = {"env_kwargs": {"length": length}}
            run = tfb.train("ppo", steps=100_000, **options, **kwargs, **start)
            start, total = {"init_from": run.logdir}, total + run.step
        print(stages, f"{total:,} steps", run.evaluate(env=Lock).mean_return)
