"""Poisoning certificates for voting schemes."""
