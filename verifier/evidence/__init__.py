"""Evidence of a run that others can check, signed and in common formats."""
