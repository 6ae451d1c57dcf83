"""LUCID's search: Algorithm 1 over sets of members, one MILP per set."""
