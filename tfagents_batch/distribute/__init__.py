"""Rollouts from workers of Ray or Spark, and sweeps; loaded when they are used."""
