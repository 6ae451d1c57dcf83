"""Poisoning certificates of schemes that predict by votes."""
