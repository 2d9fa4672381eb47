"""Search spaces of sweeps by algorithm, for a sweep that names none.

The ranges are wide. Whoever knows more about a task names narrower ones.
"""

from tfagents_batch.errors import UserError

_RATE = {"algorithm.learning_rate": "log:3e-5:1e-2"}
_GAMMA = {"algorithm.gamma": "0.9,0.95,0.98,0.99,0.995,0.999"}
_ENTROPY = {"algorithm.entropy_scale": "log:1e-6:0.1"}
_LENGTH = {"rollout.length": "32,64,128,256,512"}
# Steps of one training are collected first: more of them also change the policy less
# often, see ``replay.steps``.
_REPLAY = {
    **_RATE,
    **_GAMMA,
    "algorithm.batch_size": "64,128,256,512",
    "algorithm.target_tau": "log:1e-3:0.1",
    "algorithm.train_every": "1,4,8,16",
}
_ROWS = {
    **_RATE,
    "algorithm.batch_size": "64,128,256,512",
    "algorithm.target_tau": "log:1e-3:0.1",
}
_NOISE = {"algorithm.noise": "uniform:0.05:0.5"}

SEARCHES = {
    "ppo": {
        **_RATE,
        **_GAMMA,
        **_ENTROPY,
        **_LENGTH,
        "algorithm.gae_lambda": "0.8,0.9,0.95,0.98,1",
        "algorithm.clip_ratio": "0.1,0.2,0.3",
        "algorithm.epochs": "3,5,10,20",
        "algorithm.minibatch_size": "64,128,256,512",
    },
    "a2c": {
        **_RATE,
        **_GAMMA,
        **_ENTROPY,
        "rollout.length": "5,8,16,32,64",
        "algorithm.gae_lambda": "0.9,0.95,0.98,1",
    },
    "ga3c": {**_RATE, **_GAMMA, **_ENTROPY},
    "reinforce": {**_RATE, **_GAMMA, **_ENTROPY},
    "pqn": {
        **_RATE,
        **_GAMMA,
        "algorithm.trace": "uniform:0:0.95",
        "algorithm.epochs": "1,2,4",
        "algorithm.minibatch_size": "64,128,256",
    },
    "dqn": {**_REPLAY, "algorithm.n_step": "1,3,5"},
    "bc": {**_RATE, "algorithm.batch_size": "64,128,256,512"},
    "bcq": {**_ROWS, "algorithm.threshold": "0.1,0.2,0.3,0.5,0.8"},
    "crr_discrete": {**_ROWS, "algorithm.beta": "log:1e-2:10"},
    "crr": {**_ROWS, "algorithm.beta": "log:1e-2:10"},
    "cql": {**_ROWS, "algorithm.cql_scale": "log:0.1:200"},
    "iql": {
        **_ROWS,
        "algorithm.expectile": "0.5,0.7,0.8,0.9",
        "algorithm.advantage_scale": "log:0.1:10",
    },
    "td3_bc": {**_ROWS, "algorithm.bc_alpha": "log:0.1:40"},
    "sac": _REPLAY,
    "td3": {**_REPLAY, **_NOISE},
    "ddpg": {**_REPLAY, **_NOISE},
}

# Of those, what may be searched on rows of a timeline, which has its own rewards.
_OF_ROWS = {*_ROWS, "algorithm.threshold", "algorithm.beta", "algorithm.cql_scale"}
_OF_ROWS |= {f"algorithm.{x}" for x in ("expectile", "advantage_scale", "bc_alpha")}


def usual(algorithm: str, rows: bool) -> dict[str, str]:
    """Return the usual search space of an algorithm, see ``sweep_search``.

    On rows of a timeline it is smaller. A UserError says if there is none.
    """
    if algorithm not in SEARCHES:
        raise UserError(
            f"there is no usual search space for {algorithm!r}; pass "
            "--search=<flag>=<values>, once for each flag to search"
        )
    space = SEARCHES[algorithm]
    return {k: text for k, text in space.items() if not rows or k in _OF_ROWS}
