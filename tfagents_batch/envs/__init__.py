"""Batches of environments; this file is empty because workers import it."""
