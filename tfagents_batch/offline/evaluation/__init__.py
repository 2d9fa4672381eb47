"""Estimates of a policy's value from rows that another policy logged."""
