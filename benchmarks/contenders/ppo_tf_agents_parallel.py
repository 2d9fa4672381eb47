"""TF-Agents' PPOClipAgent, whose ParallelPyEnvironment has a process for each."""

from benchmarks import session
from benchmarks.contenders import ppo_tf_agents
from benchmarks.training import Training


def start(work):
    return ppo_tf_agents.start(work, processes=True)


if __name__ == "__main__":
    session.main(ppo_tf_agents.load, start, Training)
