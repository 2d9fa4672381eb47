"""Replay: a buffer of transitions inside the graph, for off-policy algorithms."""
