"""MinAtar's five games (Young and Tian, 2019), after their published rules."""
