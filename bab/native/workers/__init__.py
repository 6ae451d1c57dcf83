"""Explorers at work: in this process, in other processes, and on Ray."""
