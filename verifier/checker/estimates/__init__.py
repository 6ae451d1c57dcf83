"""Audits of unlearning: attacks, counts and intervals computed anew from the file of trials."""
