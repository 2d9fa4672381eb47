"""What ``tfb.check_env`` finds out about one environment."""
