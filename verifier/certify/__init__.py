"""Hints for the kernel: searched for here, and believed by nobody."""
