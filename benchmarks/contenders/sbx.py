"""SBX's PPO, DQN, SAC and TD3: Stable-Baselines3's loop around updates in JAX."""

from __future__ import annotations

from typing import Any

from benchmarks.inside import sb3, session
from benchmarks.work.off_policy import OffPolicy
from benchmarks.work.works import Training, versions

_PACKAGES = (
    *("sbx-rl", "stable-baselines3", "jax", "jaxlib", "flax", "torch", "minatar"),
)


def load(threads: int = 1, **_: Any) -> None:
    """Import SBX, with one thread of JAX, or its default of one per core."""
    sb3.choose_jax_threads(threads)
    import sbx  # noqa: F401


def start(
    work: Training | OffPolicy, threads: int = 1, several: bool = True
) -> sb3.Learning:
    """Return a session.

    Args:
      work: what to train on.
      threads: 1, or any other number for one per core.
      several: use the work's number of environments, else one.
    """
    import jax
    import sbx

    count = work.num_envs if several else 1
    envs = sb3.vectorised(work.constructor(), count, "dummy", True)
    arguments, kind = sb3.arguments(work, count), _policy(work)
    own: dict[str, Any] = {"threads": threads}
    algorithm = getattr(sbx, work.algorithm.upper())
    if isinstance(work, Training):
        own["gradient norm"] = "clipped for each network by itself"
    else:
        optimizer = _optimizer(work.gradient_norm)
        arguments["policy_kwargs"]["optimizer_class"] = optimizer
    model = (_td3(work) if work.algorithm == "td3" else algorithm)(
        kind, envs, **arguments
    )
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


def _policy(work: Training | OffPolicy) -> Any:
    if work.network == "mlp":
        if len(work.hidden) != 2 or len({*work.hidden}) != 1:
            raise ValueError(f"hidden is {work.hidden}; SBX has two equal layers")
        return "MlpPolicy"
    if work.network == "small_cnn":
        return _small_cnn()
    raise ValueError(f"network is {work.network!r}; expected mlp or small_cnn")


def _small_cnn() -> type:
    """Return a policy with 16 filters of 3 x 3 pixels, and 128 units."""
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    from sbx.common.type_aliases import RLTrainState
    from sbx.dqn.policies import DQNPolicy

    class Network(nn.Module):
        actions: int

        @nn.compact
        def __call__(self, x):
            x = nn.Conv(16, (3, 3), padding="VALID")(x.astype(jnp.float32))
            x = nn.relu(x).reshape(x.shape[0], -1)
            x = nn.relu(nn.Dense(128)(x))
            return nn.Dense(self.actions)(x)

    class SmallCNNPolicy(DQNPolicy):
        def build(self, key, lr_schedule):
            key, own = jax.random.split(key)
            observation = jnp.array([self.observation_space.sample()])
            self.qf = Network(int(self.action_space.n))
            optimizer = self.optimizer_class(
                learning_rate=lr_schedule(1), **self.optimizer_kwargs
            )
            self.qf_state = RLTrainState.create(
                apply_fn=self.qf.apply,
                params=self.qf.init(own, observation),
                target_params=self.qf.init(own, observation),
                tx=optimizer,
            )
            self.qf.apply = jax.jit(self.qf.apply)
            return key

    return SmallCNNPolicy


if __name__ == "__main__":
    session.main(load, start, Training, OffPolicy)
