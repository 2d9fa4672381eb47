"""What a process has once: signals, devices, threads, compiled programs."""
