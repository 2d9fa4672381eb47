"""SBX's PPO, DQN, SAC and TD3: Stable-Baselines3's loop around updates in JAX."""

from __future__ import annotations

from typing import Any

from benchmarks.inside import sb3, session
from benchmarks.work.off_policy import OffPolicy
from benchmarks.work.works import Training, versions

_PACKAGES = ("sbx-rl", "stable-baselines3", "jax", "jaxlib", "flax", "torch")


def load(threads: int = 1, **_: Any) -> None:
    """Import SBX, with one thread of JAX, or its default of one per core."""
    sb3.choose_jax_threads(threads)
    import sbx  # noqa: F401


def start(
    work: Training | OffPolicy, threads: int = 1, several: bool = True
) -> sb3.Learning:
    """Return a session, with the work's number of environments if ``several``."""
    import jax
    import sbx

    count = work.num_envs if several else 1
    envs = sb3.vectorised(work.constructor(), count, "dummy", True)
    if work.network != "mlp" or len(work.hidden) != 2 or len({*work.hidden}) != 1:
        raise ValueError(f"hidden is {work.hidden}; SBX has two equal layers")
    arguments = sb3.arguments(work, count)
    own: dict[str, Any] = {"threads": threads}
    algorithm = getattr(sbx, work.algorithm.upper())
    if isinstance(work, Training):
        own["gradient norm"] = "clipped for each network by itself"
    else:
        optimizer = _optimizer(work.gradient_norm)
        arguments["policy_kwargs"]["optimizer_class"] = optimizer
    if work.algorithm == "td3":
        algorithm = _td3(work)
    model = algorithm("MlpPolicy", envs, **arguments)
    names = {"ppo": ("vf_state", "actor_state"), "dqn": ("qf_state",)}
    names = names.get(work.algorithm, ("qf_state", "actor_state"))
    states = dict(zip(("values", "actor"), names, strict=False))
    trained = [getattr(model.policy, name).params for name in states.values()]

    def updates() -> dict[str, int]:
        made = {k: int(getattr(model.policy, x).step) for k, x in states.items()}
        if work.algorithm == "sac":
            made["temperature"] = int(model.ent_coef_state.step)
        return made

    return sb3.Learning(
        work,
        model,
        sum(x.size for x in jax.tree.leaves(trained)),
        updates,
        own,
        versions(*_PACKAGES),
        # SBX has divided the steps by the number of environments.
        model.target_update_interval if work.algorithm == "dqn" else None,
    )


def _td3(work: OffPolicy) -> type:
    """Return SBX's TD3 with the work of the paper and of the other contenders.

    In SBX, target networks move in every update, and the actor follows the smaller of
    both critics. Here they move with the actor, and it follows the first critic.
    """
    import jax
    import sbx
    from sbx.common.policies import VectorCritic

    first = VectorCritic(net_arch=work.hidden, n_critics=1)

    class TD3(sbx.TD3):
        @staticmethod
        def soft_update(tau, qf_state, actor_state):
            return jax.lax.cond(
                qf_state.step % work.policy_delay == 0,
                sbx.TD3.soft_update,
                lambda _, *states: states,
                tau,
                qf_state,
                actor_state,
            )

        @staticmethod
        def update_actor(actor_state, qf_state, observations, key):
            one = qf_state.replace(
                apply_fn=first.apply,
                params=jax.tree.map(lambda x: x[:1], qf_state.params),
            )
            actor_state, _, *rest = sbx.TD3.update_actor(
                actor_state, one, observations, key
            )
            return actor_state, qf_state, *rest

    return TD3


def _optimizer(norm: float | None) -> Any:
    """Return a constructor of Adam with clipping, which SBX leaves out."""
    import optax

    if norm is None:
        return optax.adam

    def make(learning_rate, eps):
        clip = optax.clip_by_global_norm(norm)
        return optax.chain(clip, optax.adam(learning_rate, eps=eps))

    return make


if __name__ == "__main__":
    session.main(load, start, Training, OffPolicy)
