"""Statements about values of functions, checked with functions of the checker's own."""
