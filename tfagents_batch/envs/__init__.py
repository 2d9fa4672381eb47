"""Batches of environments; worker processes import parts of it, so it is empty."""
