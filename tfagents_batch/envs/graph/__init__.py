"""Batches of environments as operations of TensorFlow."""
