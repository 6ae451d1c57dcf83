"""Readers of tree ensembles, of whatever library trained them."""
