"""Worker processes as the training process sees them: start, ask, restart."""
