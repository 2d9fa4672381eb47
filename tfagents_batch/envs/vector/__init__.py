"""Existing batches of environments, stepped in the learner's process."""
