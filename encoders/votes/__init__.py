"""Poisoning certificates for schemes that predict by votes."""
