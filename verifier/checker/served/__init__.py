"""What a guard's answers rest on, proved again."""
