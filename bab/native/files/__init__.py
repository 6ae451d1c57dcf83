"""Files of a search: certificates, checkpoints, and their tables."""
