"""Forests over a set of inputs: cells, and subtrees that members replace."""
