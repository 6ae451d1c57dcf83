"""Audits of unlearning: attacks, counts and intervals recomputed from the trials."""
