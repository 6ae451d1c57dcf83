"""Statements about values, checked by functions of the checker's own."""
