"""Logged rows, in processes of their own: our algorithms and those of d3rlpy."""
