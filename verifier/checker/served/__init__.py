"""What a guard's answers depend on, checked again."""
