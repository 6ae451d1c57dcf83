"""Explorers at work: in this process, in others, and on Ray."""
