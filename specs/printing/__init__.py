"""Canonical layout of specifications."""
