"""Name resolution and typing of expressions."""
