"""Customers of a shop, who get a letter a week: python -m examples.shop log|ask.

log: letters are chosen at random. decisions.csv has a line for each of them, and
purchases.csv what was bought later.
ask: a server chooses the letters, and is told what was bought.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from examples.shop import customers


def main() -> None:
    """Run one of the commands, and print the mean return of the customers."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("command", choices=("log", "ask"))
    parser.add_argument("--customers", type=int, default=18_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server", default="127.0.0.1:8080", help="address for ask")
    given = parser.parse_args()
    if given.command == "log":
        returns = customers.log(Path(), given.customers, given.seed)
    else:
        server = customers.Server(customers.connected(given.server))
        asked = server.choose, server.report, given.customers, given.seed
        returns = customers.play(*asked)
    error = returns.std() / len(returns) ** 0.5
    print(
        f"{len(returns):,} customers, mean return {returns.mean():.2f} +- {error:.2f}"
    )


if __name__ == "__main__":
    main()
