"""How many threads JAX computes in on CPUs; to be said before it is imported."""

import os


def one() -> None:
    """One, instead of one per core: small networks often run faster so."""
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
