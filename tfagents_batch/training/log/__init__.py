"""The log of a run: files, console, TensorBoard and trackers."""
