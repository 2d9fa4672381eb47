"""Modules of the commands: start contenders, compare them, store results."""
