"""Our PPO on the work of batch-ppo's presets, approximately or by our own preset."""

from __future__ import annotations

import dataclasses
from typing import Any

from benchmarks.contenders import ppo_ours
from benchmarks.inside import graph, session
from benchmarks.work.preset import OBJECTIVE, PresetTraining

_OBJECTIVES = {"kl": OBJECTIVE}

# Differences from batch-ppo that cost the same time.
APPROXIMATED = {
    "minibatches": "any steps that were collected, as many as the chunks have",
}


def start(work: PresetTraining, compile: str = "auto", preset: str = "") -> Any:
    """Return a session of ``ppo_ours.Train``.

    Args:
      work: what to train on.
      compile: what XLA compiles, as in ``--compile``.
      preset: our preset for this work. "" approximates it: fixed rollouts replace whole
        episodes, and shuffled steps replace chunks.
    """
    config = _config(work, compile, preset)
    trainer = ppo_ours.Train(work, compile, config=config)
    trainer.same |= {
        "objective": _OBJECTIVES.get(config.settings.objective),
        "minibatches": f"{work.minibatch_size} steps",
    }
    trainer.own |= {"config": preset or "approximated: rollouts stand for episodes"}
    if not preset:
        trainer.differs |= APPROXIMATED
    return trainer


def _config(work: PresetTraining, compile: str, preset: str) -> Any:
    from tfagents_batch.algorithms import ppo
    from tfagents_batch.configs import PRESETS
    from tfagents_batch.nn import networks
    from tfagents_batch.schedules import Constant
    from tfagents_batch.sources import on_policy
    from tfagents_batch.training import experiment

    run = {
        "steps": work.steps,
        "seed": work.seed,
        "num_workers": work.num_workers,
        "eval_every": 0,
        "compile": compile,
        "compile_cache": False,  # every warm-up includes the compilation
    }
    if preset:
        return dataclasses.replace(PRESETS[preset](), **run)
    settings = ppo.Config(
        objective="kl",
        gamma=work.gamma,
        gae_lambda=work.gae_lambda,
        learning_rate=Constant(work.learning_rate),
        adam_epsilon=work.adam_epsilon,
        epochs=work.epochs,
        minibatch_size=work.minibatch_size,
        gradient_norm=work.gradient_norm,
        kl_target=work.kl_target,
        kl_cutoff_factor=work.kl_cutoff_factor,
        kl_cutoff_scale=work.kl_cutoff_scale,
        kl_init_penalty=work.kl_init_penalty,
        network=networks.Config(
            hidden=work.hidden, activation="relu", init_std=work.init_std
        ),
    )
    return experiment.Config(
        env="benchmarks.work.preset:stacked",
        env_kwargs={"name": work.env, "max_episode_steps": work.rollout_length},
        num_envs=work.num_envs,
        source=on_policy.RolloutSettings(length=work.rollout_length),
        settings=settings,
        **run,
    )


if __name__ == "__main__":
    session.main(graph.load, start, PresetTraining)
