"""Forests checked again: read, retrained and bounded by the checker's own code."""
