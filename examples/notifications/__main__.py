"""Users who get notifications: python -m examples.notifications log|ask|value.

log: the first policy decides about users, and a folder of rows is written.
ask: a server decides about users and gets feedback.
value: the true value of the agent of a run, without and with exploration.
"""

from __future__ import annotations

import argparse

from examples.notifications import dynamics, server, simulator


def main() -> None:
    """Run one of the commands, and print the mean return of the users."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("notifications", None, __doc__)
    parser.formatter_class = formatter
    parser.add_argument("command", choices=("log", "ask", "value"))
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", default="rows", help="folder of log")
    parser.add_argument("--server", default="127.0.0.1:8080", help="address for ask")
    parser.add_argument("--logdir", help="run folder, for value")
    parser.add_argument("--exploration", type=float, default=0.0, help="for value")
    given = parser.parse_args()
    if given.command == "value":
        import tfagents_batch as tfb
        from examples.notifications import truth

        value = truth.value(tfb.load(given.logdir), given.exploration)
        print(
            f"true value {value:.3f}, optimum {dynamics.value(dynamics.optimal()):.3f}"
        )
        return
    if given.command == "log":
        from tfagents_batch.offline.writer import RowLogger

        decide = simulator.logging_policy(given.seed)
        with RowLogger(given.output) as logger:
            returns = simulator.play(
                *(decide, given.users, given.seed),
                lambda decided: logger.log(*simulator.rows(decided)),
            )
    else:
        asked = server.Server(given.server)
        returns = simulator.play(asked.decide, given.users, given.seed, asked.report)
    error = returns.std() / len(returns) ** 0.5
    print(f"{len(returns):,} users, mean return {returns.mean():.3f} +- {error:.3f}")


if __name__ == "__main__":
    main()
