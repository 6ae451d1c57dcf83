"""Deciders of the built-in functions that are not formulas over points, by subject."""
