"""Options of short runs, which are in this process and not compiled."""

QUICK = {
    "steps": 300,
    "num_envs": 2,
    "rollout.length": 50,
    "num_workers": 0,
    "eval_every": 0,
    "log_every": 1,
    "compile": "off",
    "compile_cache": False,
}
