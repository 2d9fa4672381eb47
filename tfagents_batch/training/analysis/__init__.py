"""Learning curves of finished runs, and where the time of one goes."""
