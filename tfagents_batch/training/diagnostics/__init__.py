"""Diagnostics: alarms and the table of weights of a run, GPUs of the machine."""
