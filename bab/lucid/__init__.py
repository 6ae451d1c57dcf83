"""LUCID's own search: Algorithm 1 over sets of members, one MILP a set."""
