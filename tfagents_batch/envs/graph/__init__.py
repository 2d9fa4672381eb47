"""Batches of environments as TensorFlow operations."""
