"""Logged rows as trajectories: their settings, spaces, draws and reports."""
