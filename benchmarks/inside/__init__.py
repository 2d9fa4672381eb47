"""What runs inside the measured processes, of which each does one contender's work.

Their commands, in the folder above, start them and keep their results.
"""
