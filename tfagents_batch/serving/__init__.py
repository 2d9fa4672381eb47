"""Policies outside of training: exports, and a server of decisions."""
