"""Environments that come as batches already, stepped in the learner's process."""
