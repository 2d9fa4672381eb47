"""Our DQN, SAC and TD3 as ``tfagents_batch`` trains them: in rounds."""

from __future__ import annotations

import fractions
from typing import Any

from benchmarks.contenders.ppo_ours import Trained, parameters
from benchmarks.inside import graph, session
from benchmarks.work.off_policy import OffPolicy
from benchmarks.work.stepping import versions

_IN_GRAPH = "its rules are TensorFlow, inside the program"
_ROUNDS = 2**31 - 1  # of a call, which ends with its steps


class Train:
    """Calls of the program that the training loop runs, without its logger.

    Args:
      work: what to train on.
      compile: what XLA compiles, as in ``--compile``.
      in_graph: use the environment of the same name that is written in TensorFlow.

    Raises:
      RuntimeError: from ``measure``, if the number of updates differs from that of the
        work.
    """

    unit = "env steps"

    def __init__(self, work: OffPolicy, compile: str = "auto", in_graph: bool = False):
        from tfagents_batch.training.experiment import Experiment

        self._work = work
        config = _config(work, compile, in_graph)
        experiment = Experiment(config, config.recipe())
        try:
            found = _described(config) if in_graph else work.environment()
            self.same = _same(work, found, experiment.algorithm)
            experiment.start(0)
        except BaseException:
            experiment.close()
            raise
        self._trained = Trained(experiment)
        self.own = self._trained.own(compile) | {
            "num_envs": work.num_envs,
            "env_steps_between_trainings": work.num_envs * work.rollout_steps,
        }
        self.differs = {"environment": _IN_GRAPH} if in_graph else {}
        self.versions = versions("tensorflow", "keras")

    @property
    def returns(self) -> float | None:
        return self._trained.returns

    def compile(self) -> int:
        return 0  # a program is compiled when it runs for the first time

    def measure(self, seconds: float, blocks: int | None) -> session.Measured:
        return session.repeat(self._block, seconds, blocks)

    def close(self) -> None:
        self._trained.close()

    def _block(self) -> int:
        program, work = self._trained.program, self._work
        before = program.step
        size = work.block if before else work.first_block
        steps, metrics = self._trained.call(before + size, rounds=_ROUNDS)
        self._check(before, program.step, program.rounds, metrics)
        return steps

    def _check(
        self, before: int, after: int, rounds: int, metrics: dict[str, Any]
    ) -> None:
        updates = round(float(metrics.get("grad/updates", 0.0)) * rounds)
        right = self._work.updates_due(before, after)
        # Shares of updates, or of TD3's actor a sum.
        names = [x for x in metrics if x.endswith(("skipped", "skipped/sum"))]
        skipped = float(sum(metrics[name] for name in names))
        if updates != right or skipped:
            raise RuntimeError(
                f"{updates} updates, {skipped:g} skipped, for steps {before} to "
                f"{after}; expected {right}, none skipped"
            )


def _same(
    work: OffPolicy, environment: dict[str, Any], algorithm: Any
) -> dict[str, Any]:
    settings = algorithm.config
    delay = getattr(settings, "policy_delay", 1)
    updates, networks = {"values": settings.train_updates}, [algorithm.network]
    if work.algorithm != "dqn":
        updates["actor"] = fractions.Fraction(settings.train_updates, delay)
        networks.append(algorithm.critics)
    if work.algorithm == "sac" and settings.temperature is None:
        updates["temperature"] = settings.train_updates
    return work.same(
        environment,
        parameters(*networks),
        updates,
        settings.train_every,
        algorithm.batch_size,
        settings.target_every * delay,
        {
            "learning_rate": settings.learning_rate.value,
            "gamma": settings.gamma,
            "target_tau": settings.target_tau,
            "target_entropy": getattr(settings, "target_entropy", None),
            "n_step": settings.n_step,
            "double_q": getattr(settings, "target", "max") != "max",
        },
    )


def _config(work: OffPolicy, compile: str = "auto", in_graph: bool = False) -> Any:
    from tfagents_batch.sources import off_policy
    from tfagents_batch.training.config import RunConfig

    env, kwargs, workers = work.env, work.env_kwargs, work.num_workers
    if in_graph:  # a function of ``work.env`` has the name of the game as an argument
        env, kwargs, workers = f"tf/{kwargs.get('game', env)}", {}, None
    return RunConfig(
        algorithm=work.algorithm,
        env=env,
        env_kwargs=kwargs,
        steps=work.steps,
        seed=work.seed,
        num_envs=work.num_envs,
        num_workers=workers,
        source=off_policy.Config(capacity=work.capacity, steps=work.rollout_steps),
        eval_every=0,
        compile=compile,
        compile_cache=False,  # every warm-up includes the compilation
        settings=_settings(work),
    )


def _settings(work: OffPolicy) -> Any:
    from tfagents_batch.algorithms import dqn, sac, td3
    from tfagents_batch.nn import actor, q_network
    from tfagents_batch.schedules import Constant, Linear

    shared = {
        "gamma": work.gamma,
        "learning_rate": Constant(work.learning_rate),
        "adam_epsilon": work.adam_epsilon,
        "batch_size": work.batch_size,
        "train_every": work.train_every,
        "train_updates": work.train_updates,
        "warmup_steps": work.warmup_steps,
        "target_tau": work.target_tau,
        "gradient_norm": work.gradient_norm,
    }
    if work.algorithm == "dqn":
        network = {
            "mlp": q_network.Config(hidden=work.hidden),
            "small_cnn": q_network.Config(cnn="small"),
        }[work.network]
        return dqn.Config(
            **shared,
            n_step=1,
            target="max",
            epsilon=Linear(*work.epsilon),
            target_every=work.target_every,
            loss="huber",
            network=network,
        )
    shared["network"] = actor.Config(hidden=work.hidden)
    if work.algorithm == "sac":
        return sac.Config(**shared, target_entropy=work.target_entropy)
    return td3.Config(
        **shared, policy_delay=work.policy_delay, noise=Constant(work.noise)
    )


def _described(config: Any) -> dict[str, Any]:
    """Describe an environment in the graph, as ``stepping.describe`` does."""
    from tfagents_batch.envs.tf import names

    limit = names.make(config.env, config.env_kwargs).max_episode_steps
    own = {"id": config.env, "kwargs": config.env_kwargs}
    return own | {"wrappers": [], "time_limit": limit}


if __name__ == "__main__":
    session.main(graph.load, Train, OffPolicy)
