"""Samples that Horizon or ReAgent made, as partitions of a table."""
