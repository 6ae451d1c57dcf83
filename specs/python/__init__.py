"""Specifications written in Python."""
