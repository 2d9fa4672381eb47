"""The folder of a run: config, checkpoints and git commit."""
