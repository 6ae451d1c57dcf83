"""Hints for the kernel: what a certificate leaves out is made again, and believed by nobody."""
