"""SBX's PPO, DQN, SAC, TD3 and TQC: Stable-Baselines3's loop around updates in JAX."""

from __future__ import annotations

from benchmarks.inside import sb3, session
from benchmarks.work.off_policy import OffPolicy
from benchmarks.work.works import Training, versions

DIFFERS = {  # by algorithm: what it does instead, and why it cannot be equal
    "dqn": {"loss": ("huber, gradients not clipped", "it has no clipping")},
    "td3": {"updates_between_targets": (1, "its targets move in every update")},
}
_PACKAGES = ("sbx-rl", "stable-baselines3", "jax", "jaxlib", "flax", "torch")


def start(work: Training | OffPolicy, threads: int = 1) -> sb3.Learning:
    """Return a session."""
    sb3.choose_jax_threads(threads)
    import jax
    import sbx

    envs = sb3.vectorised(work.constructor(), work.num_envs, "dummy", True)
    algorithm = getattr(sbx, work.algorithm.upper())
    model = algorithm("MlpPolicy", envs, **sb3.arguments(work))
    names = {
        "ppo": ("vf_state", "actor_state"),
        "dqn": ("qf_state",),
        "tqc": ("qf1_state", "actor_state", "qf2_state"),
    }
    names = names.get(work.algorithm, ("qf_state", "actor_state"))
    states = dict(zip(("values", "actor"), names, strict=False))
    trained = [getattr(model.policy, name).params for name in names]

    def updates() -> dict[str, int]:
        made = {k: int(getattr(model.policy, x).step) for k, x in states.items()}
        if work.algorithm in ("sac", "tqc"):
            made["temperature"] = int(model.ent_coef_state.step)
        return made

    return sb3.Learning(
        work,
        model,
        sum(x.size for x in jax.tree.leaves(trained)),
        updates,
        {"threads": threads},
        versions(*_PACKAGES),
        # SBX has divided the steps by the number of environments.
        model.target_update_interval if work.algorithm == "dqn" else None,
        DIFFERS.get(work.algorithm, {}),
    )


if __name__ == "__main__":
    session.main(start)
