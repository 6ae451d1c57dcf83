"""What a guard needs of an exact forest, and of all its deletions."""
