"""Exact numbers, rounded only on purpose."""
