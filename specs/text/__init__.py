"""Parsing of text to a tree, and the location of errors in the text."""
