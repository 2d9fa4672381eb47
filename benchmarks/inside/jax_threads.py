"""How many threads JAX computes in on CPUs; to be said before it is imported."""

import os


def choose(threads: int = 1) -> None:
    """One, or one per core, which is JAX's default.

    Args:
      threads: one runs small networks faster, often.
    """
    if threads == 1:
        flags = os.environ.get("XLA_FLAGS", "")
        more = "--xla_cpu_multi_thread_eigen=false"
        os.environ["XLA_FLAGS"] = f"{flags} {more}".strip()
