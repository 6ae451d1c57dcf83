"""Claims about votes of base classifiers, counted again in integers."""
