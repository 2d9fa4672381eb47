"""Learning curves of finished runs, and profiles of one run."""
