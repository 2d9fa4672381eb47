"""Error texts for unknown names, with the closest known name.

Settings, classes and functions are also known by their names in Stable-Baselines3 and
rl-baselines3-zoo.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Collection, Mapping
from typing import Any

# Our settings for names of Stable-Baselines3 and rl-baselines3-zoo, the first one that
# the algorithm has, with what differs besides the name.
_PEERS = {
    "algo": ("algorithm", ""),
    "action_noise": ("exploration", "gaussian or ou"),
    "activation_fn": ("network.activation", ""),
    "batch_size": ("minibatch_size", ""),
    "callback": (
        "on_iteration",
        "or on_evaluation or on_checkpoint, each a function or a list",
    ),
    "buffer_size": ("replay.capacity", ""),
    "clip_range": ("clip_ratio", ""),
    "clip_range_vf": ("value_clip", ""),
    "ent_coef": ("entropy_scale temperature", ""),
    "env_id": ("env", ""),
    "eval_freq": ("eval_every", "steps of all environments together"),
    "exploration_final_eps": ("epsilon", "a schedule: linear(1, 0.05, <steps>)"),
    "exploration_fraction": ("epsilon", "a schedule: linear(1, 0.05, <steps>)"),
    "exploration_initial_eps": ("epsilon", "a schedule: linear(1, 0.05, <steps>)"),
    "gradient_steps": ("train_updates", ""),
    "learning_starts": ("warmup_steps", ""),
    "log_std_init": ("network.init_std sde_std", "the exp of that value"),
    "lr": ("learning_rate", ""),
    "max_grad_norm": ("max_gradient_norm", ""),
    "n_envs": ("num_envs", ""),
    "n_epochs": ("epochs", ""),
    "n_eval_envs": ("num_envs", ""),
    "n_eval_episodes": ("eval_episodes episodes", ""),
    "n_steps": ("rollout.length n_step", ""),
    "n_timesteps": ("steps", ""),
    "net_arch": ("network.hidden", ""),
    "norm_obs": ("normalize_observation", ""),
    "norm_reward": ("normalize_return", ""),
    "optimize_memory_usage": ("replay.stack", "the number of stacked frames"),
    "policy": ("network.hidden", "such as 64,64; images get a CNN by themselves"),
    "policy_kwargs": ("network.hidden", "such as 64,64, with network.activation"),
    "progress_bar": ("progress", ""),
    "rms_prop_eps": ("optimizer_epsilon", ""),
    "save_freq": ("keep_every", "steps of all environments together"),
    "sde_sample_freq": ("sde_every", "the length of a rollout instead of -1"),
    "target_kl": ("kl_stop", "1.5 times that value"),
    "target_policy_noise": ("target_noise", ""),
    "target_noise_clip": ("target_clip", ""),
    "target_update_interval": ("target_every", "updates instead of steps"),
    "tau": ("target_tau", ""),
    "tensorboard_log": ("logdir", ""),
    "total_timesteps": ("steps", ""),
    "train_freq": ("train_every", "train_freq times the number of environments"),
    "trained_agent": ("init_from", "the folder of a run"),
    "verbose": ("progress", "true or false"),
    "use_rms_prop": ("optimizer", "rmsprop or adam"),
    "use_sde": ("exploration", "sde"),
    "use_sde_at_warmup": ("warmup", "policy"),
    "vec_env": ("num_workers", "the number of processes"),
    "vf_coef": ("value_scale", "twice that value"),
}
# The same for other words for our settings: a thing has one name in all commands.
_WORDS = {"num_episodes": "episodes", "policy": "logdir", "run": "resume logdir"}
# Our calls for classes and functions of Stable-Baselines3.
_PEER_CALLS = {
    **{
        name: f'tfb.train("{name.lower()}", env=...)'
        for name in ("A2C", "DDPG", "DQN", "PPO", "SAC", "TD3")
    },
    "make_vec_env": "tfb.train(..., num_envs=8) or tfb.make_env(..., num_envs=8)",
}


def setting(name: str, known: Mapping[str, str]) -> str | None:
    """Return a hint for an unknown setting: our name of it, or the closest name.

    Args:
      name: what was given, also with a prefix such as ``algorithm.``.
      known: how each setting is written, by its name with its prefix; of several
        settings with the same name, the first one is taken.

    Returns:
      ``did you mean --steps?``, or None if no setting is similar.
    """
    last = name.rpartition(".")[2].replace("-", "_")
    same = [other for other in known if other.rpartition(".")[2] == last]
    ours, note = _PEERS.get(last, ("", ""))
    if not same and (own := _first(ours, known)):
        return _here(last, known[own], note)
    close = _first(_WORDS.get(last, ""), known) or closest(name, known)
    return f"did you mean {known[close]}?" if close else None


def peer(name: str) -> str | None:
    """Return what a class, function or policy of Stable-Baselines3 is here, or None."""
    ours, note = _PEER_CALLS.get(name), ""
    if re.fullmatch("(Mlp|Cnn|MultiInput)(Lstm)?Policy", name):
        setting, note = _PEERS["policy"]
        ours = f"the setting {setting}"
    return _here(name, ours, note) if ours else None


def _here(name: str, ours: str, note: str) -> str:
    text = f"Stable-Baselines3's {name} is {ours} here"
    return f"{text}, {note}" if note else text


def _first(names: str, known: Collection[str]) -> str | None:
    """Return the known name of the first setting that is known, with its prefix."""
    for name in names.split():
        for other in known:
            if other == name or other.endswith(f".{name}"):
                return other
    return None


def unknown(what: str, got: Any, known: Collection[str]) -> str:
    """Return an error text: ``unknown config 'cartpol'; did you mean 'cartpole'?``"""
    return f"unknown {what} {got!r}; {hint(str(got), known)}"


def hint(name: str, known: Collection[str]) -> str:
    """Return ``did you mean 'cartpole'?``, or the known names if none is similar."""
    close = closest(name, known)
    if close:
        return f"did you mean {close!r}?"
    return f"known: {', '.join(sorted(known)) or 'none'}"


def closest(name: str, known: Collection[str]) -> str | None:
    """Return the known name that is most similar to ``name``, or None.

    A name that differs only in its dotted prefix comes first; case is ignored.
    """
    last = name.rpartition(".")[2]
    for other in known:
        if other.rpartition(".")[2] == last:
            return other
    folded = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), folded, n=1)
    return folded[close[0]] if close else None


def similar_id(id: str, known: Collection[str]) -> str:
    """Return a hint with the newest version of an id or a similar id, or ""."""
    newest = newest_version(id, known)
    if newest is not None:
        return f"the newest version is {newest!r}"
    close = closest(id, known)
    return f"did you mean {(newest_version(close, known) or close)!r}?" if close else ""


def warn_of_age(name: str, id: str, known: Collection[str]) -> None:
    """Warn if there is a newer version of an environment's id."""
    newest = newest_version(id, known)
    if newest not in (None, id):
        warnings.warn(
            f"environment {name!r} is out of date; the newest is {newest!r}",
            stacklevel=5,
        )


def newest_version(id: str, known: Collection[str]) -> str | None:
    """Return the newest known version ``Name-v<number>`` of an id, or None."""
    stem = re.sub(r"-v\d+$", "", id)
    versions = [
        other for other in known if re.fullmatch(rf"{re.escape(stem)}-v\d+", other)
    ]
    return max(versions, key=lambda x: int(x.rpartition("-v")[2]), default=None)
