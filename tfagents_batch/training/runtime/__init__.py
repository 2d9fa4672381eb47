"""State of the process: signals, devices, threads, compiled programs."""
