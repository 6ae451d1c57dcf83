"""Files of a search: certificates, checkpoints, and tables in them."""
