"""What to say about a run: alarms and the table of weights."""
