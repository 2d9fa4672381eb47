"""Batches that several tests use, because tracing a batch takes seconds."""

import functools

import tfagents_batch as tfb

ROWS = 20


@functools.cache  # a batch has no state
def batch(id, **arguments):
    """Return a batch of ``tf/id``; its episodes end soon, even in random play."""
    arguments = {"max_episode_steps": 20, **arguments}
    rows = 3 if id.startswith(("Flappy", "MinAtar")) else ROWS  # they are large
    return tfb.make_env(f"tf/{id}", rows, env_kwargs=arguments)
