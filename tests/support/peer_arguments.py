"""Arguments of Stable-Baselines3 and their defaults, as the migration page has them.

``python tests/support/peer_arguments.py`` writes them to a file beside this one. It
needs an interpreter with Stable-Baselines3, and nothing of this package.
"""

from __future__ import annotations

import inspect
import json
import pathlib
import sys
from typing import Any

FILE = pathlib.Path(__file__).with_suffix(".json")
ALGORITHMS = ("PPO", "A2C", "DQN", "SAC", "TD3", "DDPG")
# Arguments that an algorithm passes to its policy and replay buffer itself.
_PASSED = ("self", "observation_space", "action_space", "lr_schedule", "n_envs")


def arguments(name: str) -> dict[str, str]:
    """Return the arguments of an algorithm and the texts of their defaults.

    Those of other calls have their names around them: ``learn(callback)`` and
    ``policy_kwargs["net_arch"]``. An argument without a default has an empty text.
    """
    import stable_baselines3
    from stable_baselines3.common import buffers

    algorithm = getattr(stable_baselines3, name)
    found = _signature(algorithm)
    parts = {'policy_kwargs["{}"]': [algorithm.policy_aliases["MlpPolicy"]]}
    if "replay_buffer_kwargs" in found:
        kinds = [buffers.ReplayBuffer, stable_baselines3.HerReplayBuffer]
        parts['replay_buffer_kwargs["{}"]'] = kinds
    own = dict(found)
    for form, functions in {"learn({})": [algorithm.learn], **parts}.items():
        for function in functions:
            for argument, default in _signature(function).items():
                if argument not in own and argument not in _PASSED:
                    found[form.format(argument)] = default
    if name == "DDPG":
        found['policy_kwargs["n_critics"]'] = "1"  # set in its constructor
    return found


def _signature(function: Any) -> dict[str, str]:
    parameters = inspect.signature(function).parameters.values()
    return {each.name: _text(each.default) for each in parameters}


def _text(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return ""
    words = {None: "none", True: "yes", False: "no"}
    if default is None or isinstance(default, bool):
        return words[default]
    return default.__name__ if inspect.isclass(default) else str(default)


if __name__ == "__main__":
    text = json.dumps({name: arguments(name) for name in ALGORITHMS}, indent=1)
    if "--print" in sys.argv:
        print(text)
    else:
        FILE.write_text(text + "\n")
