"""Rows for tests."""

import json


def row(**changes):
    """Return a row of the discrete mode; a value None leaves its column out."""
    found = {
        "ds": "2026-01-01",
        "mdp_id": "u7",
        "sequence_number": 0,
        "state_features": {"0": 0.12, "3": 7},
        "action": "send",
        "action_probability": 0.9,
        "reward": 1.5,
        "possible_actions": ["send", "drop"],
        "metrics": {"click": 1.0, "send_cost": -0.5},
    }
    found |= changes
    return {name: value for name, value in found.items() if value is not None}


def episode(length=3, mdp_id="u7", **changes):
    """Return the rows of an episode with alternating actions that terminates."""
    rows = [
        row(mdp_id=mdp_id, sequence_number=k, action=("send", "drop")[k % 2], **changes)
        for k in range(length)
    ]
    rows[-1]["terminated"] = True
    return rows


def parametric(**changes):
    """Return a row of the parametric mode."""
    actions = [{"100": 0.3, "101": 1.0}, {"100": 0.5}]
    return row(**{"action": actions[0], "possible_actions": actions} | changes)


def continuous(**changes):
    """Return a row of the continuous mode."""
    given = {"action": {"10": 0.5}, "possible_actions": None}
    return row(
        **given | {"action_probability": None, "action_log_density": -1} | changes
    )


def write(path, rows):
    """Write JSON lines; a string is a line as it is."""
    lines = [each if isinstance(each, str) else json.dumps(each) for each in rows]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path
