"""Decisions as JSON, as batches of a model, and as logged rows; no HTTP."""
