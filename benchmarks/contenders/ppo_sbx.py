"""SBX's PPO: Stable-Baselines3's loop around updates in JAX."""

from benchmarks.inside import baselines, jax_threads, session, vectorised
from benchmarks.work.stepping import versions
from benchmarks.work.training import Training


def load():
    import sbx  # noqa: F401


def start(work, threads=1):
    import jax
    import sbx

    settings = baselines.hyperparameters(work)
    envs = vectorised.make(work.constructor(), work.num_envs, "dummy", monitor=True)
    model = sbx.PPO("MlpPolicy", envs, device="cpu", **settings)
    policy = model.policy

    def parameters() -> int:
        states = policy.actor_state, policy.vf_state
        return sum(x.size for each in states for x in jax.tree.leaves(each.params))

    own = {
        "workers": 0,
        "autoreset": "same step",
        "threads": threads,
        "wrapper": "Monitor",
        "gradient norm": "clipped for each network by itself",
    }
    return baselines.Learning(
        work,
        model,
        parameters,
        lambda: int(policy.actor_state.step),
        own,
        versions("sbx-rl", "stable-baselines3", "jax", "jaxlib", "flax", "torch"),
    )


if __name__ == "__main__":
    session.main(load, start, Training, jax_threads.choose)
