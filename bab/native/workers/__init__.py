"""Explorers as workers: in this process, in other processes, and on Ray."""
