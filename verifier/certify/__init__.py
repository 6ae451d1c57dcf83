"""Answers to what the kernel asks; nothing here is trusted."""
