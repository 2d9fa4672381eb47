"""Diagnostics of a run: alarms and the table of weights."""
