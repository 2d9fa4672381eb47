"""Code that runs in the measured processes, each of which does one contender's work."""
