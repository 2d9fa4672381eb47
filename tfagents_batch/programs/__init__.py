"""Programs of a run: collecting and updating in turn, ahead, or in threads."""
