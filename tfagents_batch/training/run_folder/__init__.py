"""The folder of a run: its config, checkpoints and the state of the code."""
