"""What is handed on: what others can check, and what is said of single rows."""
