"""Exact searches for the worst attack on votes."""
