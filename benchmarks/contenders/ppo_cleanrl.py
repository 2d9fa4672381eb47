"""PPO as a plain PyTorch loop in CleanRL's style."""

from typing import Any

from benchmarks.inside import session
from benchmarks.stepping import versions
from benchmarks.training import Training, last_mean


def load():
    import benchmarks.inside.torch_ppo  # noqa: F401


class Plain:
    """A block is one iteration of the loop.

    Args:
      work: what to train on.
      processes: one for each environment, by AsyncVectorEnv; else SyncVectorEnv.
      threads: of PyTorch.
    """

    unit = "env steps"

    def __init__(self, work: Training, processes: bool = False, threads: int = 1):
        import torch
        from gymnasium import vector

        from benchmarks.inside import torch_ppo

        if work.network != "mlp":
            raise ValueError(f"network {work.network!r}; this loop has 'mlp' only")
        torch.set_num_threads(threads)
        kind = vector.AsyncVectorEnv if processes else vector.SyncVectorEnv
        self._envs = kind(
            [work.constructor()] * work.num_envs,
            autoreset_mode=vector.AutoresetMode.SAME_STEP,
        )
        self._work = work
        self._loop = torch_ppo.Loop(work, self._envs)
        self._iterations = 0
        self.own = {
            "workers": work.num_envs if processes else 0,
            "autoreset": "same step",
            "threads": threads,
            "code": "benchmarks/inside/torch_ppo.py, in CleanRL's style",
        }
        self.versions = versions("torch")

    @property
    def same(self) -> dict[str, Any]:
        weights = self._loop.networks.parameters()
        return self._work.same(
            self._work.constructor(),
            sum(weight.numel() for weight in weights),
            self._loop.gradient_steps // self._iterations,
            self._loop.rows,
        )

    @property
    def returns(self) -> float | None:
        return last_mean(self._loop.returns)

    def compile(self) -> int:
        return 0

    def measure(self, seconds, blocks):
        return session.repeat(self._block, seconds, blocks)

    def close(self) -> None:
        self._envs.close()

    def _block(self) -> int:
        self._iterations += 1
        return self._loop.iterate()


if __name__ == "__main__":
    session.main(load, Plain, Training)
