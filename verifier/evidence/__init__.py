"""Evidence of a run that others can check: what it rests on, signed, in the formats of others."""
