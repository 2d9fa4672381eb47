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


def start(work: Training | OffPolicy, threads: int = 1, **options: Any) -> sb3.Learning:
    """Return a session; ``options`` as of ``sb3.start``."""
    make = _off_policy if isinstance(work, OffPolicy) else _on_policy
    found = make(work, **options)
    found.own["threads"] = threads
    return found


def _on_policy(work: Training) -> sb3.Learning:
    import jax
    import sbx

    if work.network != "mlp":
        raise ValueError(f"network is {work.network!r}; expected mlp")
    envs = sb3.vectorised(work.constructor(), work.num_envs, "dummy", True)
    arguments = sb3.on_policy_arguments(work)
    model = sbx.PPO("MlpPolicy", envs, device="cpu", **arguments)
    policy = model.policy

    def parameters() -> int:
        states = policy.actor_state, policy.vf_state
        return sum(x.size for each in states for x in jax.tree.leaves(each.params))

    return sb3.on_policy(
        work,
        model,
        parameters,
        lambda: int(policy.actor_state.step),
        {"workers": 0, "gradient norm": "clipped for each network by itself"},
        versions(*_PACKAGES),
    )


def _off_policy(work: OffPolicy, several: bool = False) -> sb3.Learning:
    """Return a session with the work's number of environments, or with one."""
    import jax
    import sbx

    count = work.num_envs if several else 1
    envs = sb3.vectorised(work.constructor(), count, "dummy", True)
    kind, network = _network(work)
    policy = network | {
        "optimizer_class": _optimizer(work.gradient_norm),
        "optimizer_kwargs": {"eps": work.adam_epsilon},
    }
    td3 = work.algorithm == "td3"
    algorithm = _td3(work) if td3 else getattr(sbx, work.algorithm.upper())
    arguments = sb3.off_policy_arguments(work, envs) | {"policy_kwargs": policy}
    model = algorithm(kind, envs, device="cpu", **arguments)
    states = {"values": (model.policy, "qf_state")}
    target_calls = None
    if work.algorithm == "dqn":
        target_calls = model.target_update_interval  # it has divided them by ``count``
    else:
        states["actor"] = (model.policy, "actor_state")
    trained = [getattr(*each).params for each in states.values()]
    if work.algorithm == "sac":
        states["temperature"] = (model, "ent_coef_state")
    return sb3.off_policy(
        work,
        model,
        sum(x.size for x in jax.tree.leaves(trained)),
        lambda: {name: int(getattr(*each).step) for name, each in states.items()},
        target_calls,
        {},
        versions(*_PACKAGES),
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


def _network(work: OffPolicy) -> tuple[Any, dict[str, Any]]:
    """Return the policy, and its arguments for its network."""
    if work.network == "mlp":
        units = {*work.hidden}
        if len(units) != 1 or len(work.hidden) != 2:
            raise ValueError(f"hidden is {work.hidden}; SBX has two equal layers")
        return "MlpPolicy", {"net_arch": list(work.hidden)}
    if work.network == "small_cnn":
        return _small_cnn(), {}
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
