"""Two forests: their trees over a box, and a MILP for an input at which they answer apart."""
