"""Provenance of a run: files and digests, training rows, positions of statements."""
