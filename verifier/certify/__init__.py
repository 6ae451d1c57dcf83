"""Answers to what the kernel asks: chosen by any means, for the kernel trusts none of them."""
