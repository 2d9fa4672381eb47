"""Sweeps: many trainings with other settings, which Optuna chooses."""
