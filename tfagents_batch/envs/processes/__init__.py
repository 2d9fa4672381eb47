"""Worker processes from the learner's side: start, commands, restart."""
