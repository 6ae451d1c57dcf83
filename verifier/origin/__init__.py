"""What a run rests on: files and their digests, training rows, and where statements stand."""
