"""Modules that several commands use: start contenders, compare them, store results."""
