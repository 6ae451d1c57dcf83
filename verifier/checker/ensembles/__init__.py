"""Forests proved again: read, trained anew, and bounded, by code of the checker's own."""
