"""Stable-Baselines3's SubprocVecEnv: processes forked from a server."""

import multiprocessing

from benchmarks import session
from benchmarks.contenders import sb3_dummy, sb3_spawn


def start(work):
    # Or every one of the processes would import PyTorch by itself.
    preload = ["stable_baselines3.common.vec_env.subproc_vec_env"]
    multiprocessing.get_context("forkserver").set_forkserver_preload(preload)
    return sb3_spawn.start(work, "forkserver")


if __name__ == "__main__":
    session.main(sb3_dummy.load, start)
