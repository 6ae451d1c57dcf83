"""What computes the built-in functions that are no formulas over points, a file a subject."""
