"""Logged decisions: their schema, reading, checking and writing, and the timeline.

Nothing here imports TensorFlow or ``training``.
"""
