"""Checks of one environment, for ``tfb.check_env``."""
