"""What has to be trusted: numpy and Python's own numbers, no search and no heuristic."""
