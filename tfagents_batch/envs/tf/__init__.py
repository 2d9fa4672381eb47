"""Environments written in TensorFlow, and what makes a batch of one of them."""
