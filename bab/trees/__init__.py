"""Two ensembles of trees: where they differ, and by how much."""
