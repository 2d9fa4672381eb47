"""Code that runs in the measured processes; each does the work of one contender."""
