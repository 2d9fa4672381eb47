"""Rows of walks on a line, and their timeline."""

import json

import numpy as np

from tfagents_batch.offline import manifest

ACTIONS = "left", "right"


def walks(episodes=40, length=6, seed=0, cells=5, masked=False):
    """Return rows of a uniform policy on a line of cells.

    Going right from the last cell ends an episode with reward 1; after ``length`` steps
    it is cut off.

    Args:
      masked: whether going left from the first cell is not possible.
    """
    rng, rows = np.random.default_rng(seed), []
    for episode in range(episodes):
        cell = int(rng.integers(cells))
        for k in range(length):
            possible = possible_actions(cell, masked)
            action = possible[rng.integers(len(possible))]
            end = action == "right" and cell == cells - 1
            after = min(max(cell + (1 if action == "right" else -1), 0), cells - 1)
            row = {
                "ds": "2026-01-01",
                "mdp_id": f"e{episode}",
                "sequence_number": k,
                "state_features": one_hot(cell, cells),
                "action": action,
                "action_probability": 1 / len(possible),
                "reward": float(end),
                "possible_actions": possible,
            }
            if end:
                row["terminated"] = True
            elif k + 1 == length:
                row |= {"truncated": True}
                row["final_state_features"] = one_hot(after, cells)
                row["final_possible_actions"] = possible_actions(after, masked)
            rows.append(row)
            cell = after
            if end:
                break
    return rows


def vector_walks(episodes, action):
    """Return rows of walks whose actions are vectors, and mean nothing.

    Args:
      action: function of the number of a row.
    """
    rows = walks(episodes)
    for k, row in enumerate(rows):
        row["action"] = action(k)
        del row["possible_actions"]
        row.pop("final_possible_actions", None)
    return rows


def possible_actions(cell, masked):
    return ["right"] if masked and cell == 0 else list(ACTIONS)


def one_hot(cell, cells):
    return {i: float(i == cell) for i in range(cells)}


def build(folder, rows, mode="discrete", **config):
    """Write the timeline of rows to a folder; return the folder."""
    from tfagents_batch.offline import timeline
    from tfagents_batch.offline.reader import open_rows
    from tfagents_batch.offline.timeline_config import TimelineConfig

    with open_rows(rows, mode) as opened:
        schema, settings = opened.find_schema(), TimelineConfig(**config)
        timeline.build(opened, schema, settings, folder)
    return folder


def change_manifest(folder, without=(), **changes):
    """Change a manifest and its own hash, as somebody does who means to."""
    path = folder / manifest.NAME
    known = json.loads(path.read_text()) | changes
    for name in (*without, "manifest_sha256"):
        known.pop(name, None)
    path.write_text(json.dumps(known))
