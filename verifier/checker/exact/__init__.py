"""Numbers that are not rounded, and where they are rounded on purpose."""
