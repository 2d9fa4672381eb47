"""Samples of a timeline as the arrays that d3rlpy reads."""

from __future__ import annotations

import pathlib

from tfagents_batch.errors import UserError


def write(table: pathlib.Path, path: pathlib.Path) -> None:
    """Write the training samples of the newest partition, by episode and time."""
    import numpy as np

    from tfagents_batch.offline import table_reader

    columns = table_reader.read(table_reader.partition(table))
    if (columns["step"] > 1).any():
        raise UserError(
            f"samples of {table} have several rewards; expected one for d3rlpy, which "
            "reads rows. Make a timeline with --n_step=1"
        )
    order = np.lexsort((columns["ordinal"], columns["episode"]))
    order = order[columns["trains"][order]]
    names = {"observations": "state", "actions": "action", "rewards": "reward"}
    found = {name: columns[column][order] for name, column in names.items()}
    episode, ended = columns["episode"][order], columns["terminated"][order]
    last = np.append(episode[1:] != episode[:-1], True)
    found["terminals"] = ended.astype(np.float32)
    found["timeouts"] = (last & ~ended).astype(np.float32)
    np.savez(path, **found)
