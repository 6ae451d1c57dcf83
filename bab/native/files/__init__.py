"""What a search writes: certificates, checkpoints, and the tables in them."""
