"""Statements about values, checked by the checker's own functions."""
