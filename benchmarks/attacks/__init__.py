"""Attacks on verdicts: a file a kind of random case, each with an oracle of its own."""
