"""Guard support for an exact forest and all its deletions."""
