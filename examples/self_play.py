"""Self-play: the opponent is an export of the agent's previous version.

Nim: take 1, 2 or 3 of 21 sticks; who takes the last one wins. Workers play the export
with ONNX Runtime (extra "export"). Run: python examples/self_play.py
"""

import gymnasium
import numpy as np

import tfagents_batch as tfb


class Nim(gymnasium.Env):
    observation_space = gymnasium.spaces.MultiBinary(22)  # sticks left, one-hot
    action_space = gymnasium.spaces.Discrete(3, start=1)

    def __init__(self, opponent=None):
        from tfagents_batch.serving.predictor import Predictor

        self.opponent = opponent and Predictor.load(opponent)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.sticks = int(self.np_random.integers(4, 22))
        return np.eye(22, dtype=np.int8)[self.sticks], {}

    def step(self, action):
        for player, taken in ((1.0, int(action)), (-1.0, None)):
            self.sticks = max(0, self.sticks - (taken or self._reply()))
            if self.sticks == 0:
                return np.eye(22, dtype=np.int8)[0], player, True, False, {}
        return np.eye(22, dtype=np.int8)[self.sticks], 0.0, False, False, {}

    def _reply(self):
        if self.opponent is None or self.np_random.random() < 0.1:
            return int(self.np_random.integers(1, 4))
        seen = np.eye(22, dtype=np.int8)[[self.sticks]]
        return int(self.opponent.act(seen)["action"][0])


if __name__ == "__main__":
    start, opponent, seen = {}, {}, np.eye(22, dtype=np.int8)
    for generation in range(3):
        options = {"env": Nim, "env_kwargs": opponent, "settings": {"gamma": 1.0}}
        run = tfb.train("ppo", steps=20_000, eval_every=0, **options, **start)
        won = run.evaluate(100, env=Nim, env_kwargs=opponent).mean_return / 2 + 0.5
        action, _ = run.load().predict(seen)  # the best ones leave 4, 8, 12, ...
        best = sum(action[n] == n % 4 for n in range(1, 22) if n % 4)
        print(f"generation {generation}: won {won:.0%}, {best} of 16 best moves")
        export = tfb.export(run, "onnx", f"nim/{generation}")
        start, opponent = {"init_from": run.logdir}, {"opponent": str(export.folder)}
