"""Trees of any library with the models retrained without a row each: training, folder."""
