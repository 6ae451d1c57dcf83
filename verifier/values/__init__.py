"""Claims about values that functions compute."""
