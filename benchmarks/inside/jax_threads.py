"""Set the number of JAX's threads on CPUs, before JAX is imported."""

import os


def choose(threads: int = 1) -> None:
    """Use one thread, or leave JAX's default of one per core.

    Args:
      threads: 1, which is often faster for small networks, or any other number.
    """
    if threads == 1:
        flags = os.environ.get("XLA_FLAGS", "")
        flag = "--xla_cpu_multi_thread_eigen=false"
        os.environ["XLA_FLAGS"] = f"{flags} {flag}".strip()
