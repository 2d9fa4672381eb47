"""Environments written in TensorFlow, and their batches."""
