"""RLlib's environment runners, with the weights of PPO sent for each rollout."""

from __future__ import annotations

from benchmarks.inside import session
from benchmarks.work.environments import WaitingCartPole
from benchmarks.work.pooled import Pooled


def measure(work: Pooled) -> dict[str, float]:
    """Return environment steps per second."""
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.execution.rollout_ops import synchronous_parallel_sample
    from ray.tune.registry import register_env

    cpus = work.workers + 1
    local = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    ray.init(address="local", num_cpus=cpus, log_to_driver=False, **local)
    register_env("waiting", lambda _: WaitingCartPole(work.milliseconds))
    config = (
        PPOConfig()
        .environment("waiting")
        .env_runners(
            num_env_runners=work.workers,
            num_envs_per_env_runner=work.envs,
            rollout_fragment_length=work.length,
        )
        .training(
            train_batch_size_per_learner=work.workers * work.envs * work.length,
            minibatch_size=work.envs * work.length,
        )
    )
    group = config.build_algo().env_runner_group

    def block() -> int:
        group.sync_weights()
        episodes = synchronous_parallel_sample(
            worker_set=group, _uses_new_env_runners=True
        )
        return sum(len(each) for each in episodes)

    session.repeat(block, 0, 2)
    found = session.repeat(block, work.seconds)
    ray.shutdown()
    return {"steps_per_s": found.rate}


if __name__ == "__main__":
    session.figures(measure)
